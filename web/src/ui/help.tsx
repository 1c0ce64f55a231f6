import { signal } from '@preact/signals';
import { groups, label } from '../lib/keys';
import { Dialog } from './dialog';

export const helping = signal(false);

/** The shortcuts of what is on the screen. */
export function Help() {
  if (!helping.value) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (helping.value = false)}>
      <div class="dialog-body help">
        {groups.value.map(({ title, shortcuts }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {shortcuts.filter((s) => s.text).map((s) => (
                <div key={s.text}>
                  <dt>{s.text}</dt>
                  <dd>{s.shown ? <kbd>{s.shown}</kbd> : s.keys.map((k, i) => <span key={k}>{i > 0 && <span class="faint"> or </span>}{k.split(' ').filter(Boolean).map((one) => <kbd key={one}>{label(one)}</kbd>)}{k === ' ' && <kbd>Space</kbd>}</span>)}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
