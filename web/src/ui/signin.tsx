import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, ApiError, query, session } from '../lib/api';
import { usePageTitle } from '../lib/title';
import { Command } from './copy';

/** The path of a sign-in link back to this page, if a link of this server was pasted in place of a token. */
function linkIn(text: string): string | undefined {
  const url = URL.parse?.(text.trim());
  if (url?.host !== location.host || url.pathname !== '/signin') return undefined;
  return '/signin' + query({ code: url.searchParams.get('code') ?? '', next: location.pathname + location.search });
}

export function SignIn() {
  const token = useSignal('');
  const error = useSignal('');
  const busy = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  usePageTitle('Sign in');
  useEffect(() => {
    field.current?.focus({ preventScroll: true });
    // The link may have been opened in another tab.
    const look = (): void => {
      if (document.visibilityState === 'visible') void api.session().then((s) => (session.value = s), () => {});
    };
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);

  const submit = async (e: Event): Promise<void> => {
    e.preventDefault();
    if (!token.value.trim() || busy.value) return;
    const link = linkIn(token.value);
    if (link) return location.assign(link);
    busy.value = true;
    error.value = '';
    try {
      const answer = await api.signIn(token.value.trim());
      session.value = answer?.scopes ? answer : await api.session();
    } catch (e) {
      const status = e instanceof ApiError ? e.status : -1;
      error.value = status === 401 ? 'This token is not valid. It may have been removed.' : e instanceof Error ? e.message : String(e);
      field.current?.select();
    }
    busy.value = false;
  };

  return (
    <main class="signin page">
      <div class="signin-box">
        <h1>Sign in to linesman</h1>
        <section>
          <p>Run this on the machine where linesman runs, and open the link that it prints:</p>
          <Command text="linesman page" />
        </section>
        <form onSubmit={(e) => void submit(e)}>
          <div class="field">
            <label for="token">Or paste a token</label>
            <div class="joined">
              <input
                id="token" ref={field} type="password" autocomplete="off" spellcheck={false} value={token.value} aria-invalid={error.value !== ''} aria-describedby="token-hint token-error"
                onInput={(e) => { token.value = e.currentTarget.value; error.value = ''; }}
              />
              <button class="button primary" disabled={busy.value || token.value.trim() === ''}>Sign in</button>
            </div>
            <p class="error" id="token-error" role="alert">{error.value}</p>
            <p class="hint" id="token-hint"><code>linesman token create me --scope read</code> prints one for this page. What you may do here depends on its scopes.</p>
          </div>
        </form>
      </div>
    </main>
  );
}
