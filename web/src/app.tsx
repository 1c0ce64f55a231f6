import { effect, signal } from '@preact/signals';
import { Component, type ComponentChildren } from 'preact';
import { allowed, api, ApiError, session } from './lib/api';
import { useKeys } from './lib/keys';
import { navigate, route } from './lib/router';
import { setTheme, theme } from './lib/theme';
import { usePageTitle } from './lib/title';
import { Overview } from './overview';
import { Submit, submitting } from './overview/submit';
import { Header } from './ui/header';
import { Help, helping } from './ui/help';
import { lazy } from './ui/lazy';
import { Problem } from './ui/problem';
import { SignIn } from './ui/signin';
import { Toasts } from './ui/toast';

const Waiting = () => <main class="page" aria-busy="true" aria-label="Loading" />;
const Failed = () => <Problem title="This part of the page could not be loaded" detail="linesman does not answer, or was updated." action="Reload" onAction={() => location.reload()} />;

const loadRun = () => import('./run');
const RunPage = lazy<{ id: string }>(() => loadRun().then((m) => m.RunPage), Waiting, Failed);
const SideBySide = lazy<{ left: string; right: string }>(() => loadRun().then((m) => m.SideBySide), Waiting, Failed);

/** Loads the rest of the page before anybody wants it: later it may be of another version. */
effect(() => {
  if (!session.value) return;
  const load = (): void => void loadRun().catch(() => {}); // whoever wants it then sees why
  if ('requestIdleCallback' in window) requestIdleCallback(load, { timeout: 5_000 });
  else setTimeout(load, 1_000);
});

const unreachable = signal<ApiError | undefined>(undefined);

/** Asks who is signed in; again every few seconds until there is an answer. */
export async function loadSession(): Promise<void> {
  try {
    session.value = await api.session();
    unreachable.value = undefined;
  } catch (e) {
    const error = e instanceof ApiError ? e : new ApiError(-1, 'UNKNOWN', String(e));
    if (error.status === 401) session.value = null;
    else {
      unreachable.value = error;
      setTimeout(() => void loadSession(), 3000);
    }
  }
}

export function App() {
  if (session.value === null) return <SignIn />;
  if (session.value === undefined) {
    const e = unreachable.value;
    return e ? <Problem title={e.status === 0 ? 'linesman does not answer' : 'linesman cannot answer'} detail={`${e.status > 0 ? e.message + '. ' : ''}This page tries again every three seconds.`} /> : null;
  }
  return (
    <>
      <Header />
      <Boundary><Page /></Boundary>
      <Submit />
      <Help />
      <Toasts />
    </>
  );
}

function Page() {
  useKeys('Everywhere', [
    { keys: ['?'], text: 'Show these shortcuts', run: () => void (helping.value = true) },
    { keys: ['g o'], text: 'Go to the overview', run: () => navigate('/') },
    { keys: ['n'], text: 'New task', run: () => (allowed('submit') ? void (submitting.value = true) : false) },
    { keys: ['Shift+T'], text: 'Change the theme', run: () => setTheme(theme.value === 'system' ? 'light' : theme.value === 'light' ? 'dark' : 'system') },
  ]);
  const at = route.value;
  switch (at.name) {
    case 'overview': return <Overview />;
    case 'run': return <RunPage id={at.id} key={at.id} />;
    case 'with': return <SideBySide left={at.left} right={at.right} key={`${at.left} ${at.right}`} />;
    case 'unknown': return <Unknown />;
  }
}

function Unknown() {
  usePageTitle('No such page');
  return <Problem title="There is no such page" detail="The address may be incomplete." action="Overview" onAction={() => navigate('/')} />;
}

class Boundary extends Component<{ children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {};
  static override getDerivedStateFromError(error: Error) {
    console.error(error);
    return { error };
  }
  override render() {
    if (!this.state.error) return this.props.children;
    return <Problem title="This page has failed" detail={this.state.error.message} action="Reload" onAction={() => location.reload()} />;
  }
}
