import { Component, type ComponentChildren } from 'preact';
import { api, session, ApiError } from './lib/api';
import { navigate, params, route } from './lib/router';
import { lazy } from './ui/lazy';

const Waiting = () => <main class="page" aria-busy="true" />;
const Failed = () => (
  <main class="empty page">
    <p>This part of the page could not be loaded.</p>
    <p><button class="button" onClick={() => location.reload()}>Reload</button></p>
  </main>
);

const RunPage = lazy<{ id: string }>(() => import('./run').then((m) => m.RunPage), Waiting, Failed);
const SideBySide = lazy<{ left: string; right: string }>(() => import('./run').then((m) => m.SideBySide), Waiting, Failed);

export function App() {
  return <Boundary><Page /></Boundary>;
}

function Page() {
  const at = route.value;
  switch (at.name) {
    case 'overview': return <main class="page">Overview {params.value.get('q')}</main>;
    case 'run': return <RunPage id={at.id} key={at.id} />;
    case 'with': return <SideBySide left={at.left} right={at.right} key={`${at.left} ${at.right}`} />;
    case 'unknown': return <main class="page">No such page. <button onClick={() => navigate('/')}>Overview</button></main>;
  }
}

class Boundary extends Component<{ children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {};
  static override getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    return this.state.error ? <Failed /> : this.props.children;
  }
}

api.session().then((s) => (session.value = s), (e: unknown) => (session.value = e instanceof ApiError && e.status === 401 ? null : undefined));
