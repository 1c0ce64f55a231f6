import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, allowed, session } from '../lib/api';
import { now } from '../lib/clock';
import { age } from '../lib/format';
import { setTheme, theme, type Theme } from '../lib/theme';
import { notifying, toggleNotifications } from '../overview/notify';
import { newVersion, stream } from '../overview/store';
import { submitting } from '../overview/submit';
import { helping } from './help';
import { BellIcon, BellOffIcon, MenuIcon, PlusIcon } from './icons';

export function Header() {
  return (
    <header class="top">
      <a class="brand" href="/" aria-label="linesman: overview">
        <svg width="18" height="18" viewBox="0 0 32 32" aria-hidden="true"><path d="M4 8h24M4 16h14M4 24h20" stroke="currentColor" stroke-width="4" stroke-linecap="round" /></svg>
        <span>linesman</span>
      </a>
      <Connection />
      <span class="spring" />
      {allowed('submit') && (
        <button class="button" onClick={() => (submitting.value = true)} title="New task (n)">
          <PlusIcon /><span class="wide-only">New task</span><span class="visually-hidden narrow-only">New task</span>
        </button>
      )}
      <Bell />
      <Menu />
    </header>
  );
}

/** How the page is connected: quiet while it is. */
function Connection() {
  const s = stream.value;
  if (newVersion.value) {
    return <span class="connection" data-tone="needs">linesman is now {newVersion.value}. <button class="link" onClick={() => location.reload()}>Reload</button></span>;
  }
  if (!s) return null;
  switch (s.state.value) {
    case 'live': return <span class="connection" data-tone="ok"><span class="state faint">Live</span></span>;
    case 'connecting': return <span class="connection"><span class="state faint" data-hollow>Connecting</span></span>;
    case 'stale': return <span class="connection" data-tone="needs"><span class="state">No answer for {age(s.heardAt(), now.value)}</span></span>;
    case 'disconnected':
      return (
        <span class="connection" data-tone="bad">
          <span class="state">Disconnected<span class="wide-only">, next attempt in {Math.max(0, Math.ceil((s.retryAt.value - Date.now() + 0 * now.value) / 1000))}s</span></span>
          <button class="link" onClick={s.retry}>Try now</button>
        </span>
      );
    default: return <span class="connection" data-tone="bad"><span class="state">Not connected</span></span>;
  }
}

function Bell() {
  const n = notifying.value;
  const text = { off: 'Notify me when a run ends or needs an answer', on: 'Notifications are on', denied: 'Notifications are blocked in the settings of the browser', unsupported: 'This browser has no notifications for this address' }[n];
  return (
    <button class="button quiet icon" aria-pressed={n === 'on'} aria-label={text} title={text} disabled={n === 'denied' || n === 'unsupported'} onClick={() => void toggleNotifications()}>
      {n === 'on' ? <BellIcon /> : <BellOffIcon />}
    </button>
  );
}

function Menu() {
  const open = useSignal(false);
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const outside = (e: Event): void => {
      if (open.value && !ref.current?.contains(e.target as Node)) open.value = false;
    };
    const escape = (e: KeyboardEvent): void => {
      if (e.key !== 'Escape' || !open.value) return;
      open.value = false;
      e.preventDefault();
      ref.current?.querySelector('button')?.focus();
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    document.addEventListener('keydown', escape, true);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
      document.removeEventListener('keydown', escape, true);
    };
  }, []);
  const s = session.value;
  return (
    <div class="menu" ref={ref}>
      <button class="button quiet icon" aria-expanded={open.value} aria-haspopup="true" aria-label="Menu" onClick={() => (open.value = !open.value)}><MenuIcon /></button>
      {open.value && s && (
        <div class="menu-body">
          <dl>
            <dt>Signed in as</dt><dd class="cut">{s.name || 'owner'}</dd>
            <dt>May</dt><dd>{s.scopes.join(', ')}</dd>
            <dt>Version</dt><dd class="cut mono">{s.version}</dd>
          </dl>
          <fieldset class="segments">
            <legend>Theme</legend>
            {(['system', 'light', 'dark'] as Theme[]).map((t) => (
              <label key={t}><input type="radio" name="theme" checked={theme.value === t} onChange={() => setTheme(t)} /><span>{{ system: 'System', light: 'Light', dark: 'Dark' }[t]}</span></label>
            ))}
          </fieldset>
          <button class="menu-item" onClick={() => { open.value = false; helping.value = true; }}>Keyboard shortcuts <kbd>?</kbd></button>
          <button class="menu-item" onClick={() => void api.signOut().catch(() => {}).then(() => (session.value = null))}>Sign out</button>
        </div>
      )}
    </div>
  );
}
