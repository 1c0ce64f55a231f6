import { api, allowed, explained, session } from '../lib/api';
import { here, now } from '../lib/clock';
import { age, clock, plural } from '../lib/format';
import type { Stream } from '../lib/stream';
import { badge } from '../lib/title';
import { setTheme, theme, type Theme } from '../lib/theme';
import { notifying, toggleNotifications } from '../overview/notify';
import { newVersion, stream } from '../overview/store';
import { submitting } from '../overview/submit';
import { forgetComments } from '../run/comments';
import { helping } from './help';
import { BellIcon, BellOffIcon, MenuIcon, PlusIcon } from './icons';
import { useMenu } from './menu';
import { toast } from './toast';

export function Header() {
  return (
    <header class="top">
      <a class="brand" href="/" aria-label="linesman: overview">
        <svg width="18" height="18" viewBox="0 0 32 32" aria-hidden="true"><path d="M4 8h24M4 16h14M4 24h20" stroke="currentColor" stroke-width="4" stroke-linecap="round" /></svg>
        <span>linesman</span>
      </a>
      <Connection />
      <span class="visually-hidden" role="status">{badge.value.needs > 0 && `${plural(badge.value.needs, 'run needs', 'runs need')} an answer`}</span>
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
    case 'connecting': return <span class="connection"><span class="state faint" data-hollow><span class="wide-only">Connecting</span></span></span>;
    case 'stale': return <span class="connection" data-tone="needs"><span class="state">No answer<span class="wide-only"> for {age(s.heardAt(), here())}</span></span></span>;
    case 'disconnected': return <Disconnected {...s} />;
    default: return <span class="connection" data-tone="bad"><span class="state">Not connected</span></span>;
  }
}

function Disconnected({ heardAt, retryAt, retry }: Stream) {
  const seconds = Math.ceil((retryAt.value - Date.now()) / 1000);
  void now.value; // each second
  return (
    <span class="connection" data-tone="bad">
      <span class="state"><span class="wide-only">Disconnected</span><span class="narrow-only">Offline</span></span>
      <span class="faint wide-only num">{heardAt() > 0 && `as of ${clock(new Date(heardAt()).toISOString())}, `}next attempt in {Math.max(0, seconds)}s</span>
      <button class="link" onClick={retry}>Try now</button>
    </span>
  );
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
  const { open, ref } = useMenu();
  const s = session.value;
  return (
    <div class="menu" ref={ref}>
      <button class="button quiet icon" aria-expanded={open.value} aria-haspopup="true" aria-label="Menu" onClick={() => (open.value = !open.value)}><MenuIcon /></button>
      {open.value && s && (
        <div class="menu-body">
          <dl>
            <dt>Signed in as</dt><dd class="cut">{s.name || 'owner'}</dd>
            <dt>Scopes</dt><dd>{s.scopes.join(', ')}</dd>
            <dt>Version</dt><dd class="cut mono" title={s.version}>{s.version}</dd>
          </dl>
          <fieldset class="segments">
            <legend>Theme</legend>
            {(['system', 'light', 'dark'] as Theme[]).map((t) => (
              <label key={t}><input type="radio" name="theme" checked={theme.value === t} onChange={() => setTheme(t)} /><span>{{ system: 'System', light: 'Light', dark: 'Dark' }[t]}</span></label>
            ))}
          </fieldset>
          <button class="menu-item" onClick={() => { open.value = false; helping.value = true; }}>Keyboard shortcuts <kbd>?</kbd></button>
          <a class="menu-item" href="/assets/licenses.txt" target="_blank" rel="noreferrer">Licences</a>
          <button class="menu-item" onClick={() => { open.value = false; void signOut(); }}>Sign out</button>
        </div>
      )}
    </div>
  );
}

/** Whoever uses the tab next reads nothing of this one: what the page holds in memory goes with it. */
async function signOut(): Promise<void> {
  try {
    await api.signOut();
  } catch (e) {
    return toast(`You are still signed in: ${explained(e)}`, { tone: 'bad' });
  }
  tabs?.postMessage('signed out');
  leave();
}

// The streams of other tabs would go on: the server ends them only with their token.
const tabs = typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel('linesman.session');
if (tabs) tabs.onmessage = leave;

function leave(): void {
  forgetComments();
  location.replace('/');
}
