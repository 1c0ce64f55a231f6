// What tells a person of news while they do something else: the badge of the tab, and notifications of the system,
// which the user switches on. Runs that end together make one notification.

import { effect, signal } from '@preact/signals';
import { agentName } from '../lib/agents';
import { allowed, type Question, type Run } from '../lib/api';
import { serverNow } from '../lib/clock';
import { ended, lost, ms, needsYou, plural, shortPath, stateName, unseen, waitsForMessage } from '../lib/format';
import { plainText } from '../lib/plaintext';
import { navigate, questionPath, runPath } from '../lib/router';
import { recall, remember } from '../lib/theme';
import { badge } from '../lib/title';
import { actOf, keyOf, questionsOf, wantedOf } from '../questions/ask';
import { arrivals, inbox } from '../questions/store';
import { arrivedAll, changed, leader, runs, stream, updates } from './store';

const key = 'linesman.notify';

/** off | on | denied: by the browser; unsupported: no such thing, or a page that came without TLS from elsewhere. */
export type Notifying = 'off' | 'on' | 'denied' | 'unsupported';

function current(): Notifying {
  if (typeof Notification === 'undefined' || !isSecureContext) return 'unsupported';
  if (Notification.permission === 'denied') return 'denied';
  return Notification.permission === 'granted' && recall(key) === 'on' ? 'on' : 'off';
}

export const notifying = signal<Notifying>(current());

/** Switches notifications on or off. The browser asks the user, the first time. */
export async function toggleNotifications(): Promise<void> {
  if (notifying.value === 'off' && (await Notification.requestPermission()) === 'granted') remember(key, 'on');
  else remember(key, null);
  notifying.value = current();
}

/** What a change of a run is to a person: it needs an answer, it ended, or nothing. */
export function newsOf(before: Run | undefined, after: Run | undefined): 'needs' | 'ended' | undefined {
  if (!after || !before) return undefined;
  if (needsYou(after) && !needsYou(before)) return 'needs';
  if (ended(after) && !ended(before) && after.state !== 'cancelled') return 'ended';
  return undefined;
}

export function message(news: Run[]): { title: string; body: string } {
  const [run] = news;
  if (run && news.length === 1) {
    const how = lost(run) ? 'was lost' : waitsForMessage(run) ? 'waits for a message' : needsYou(run) ? 'needs an answer' : stateName(run.state);
    return { title: plainText(run.title || run.run), body: [`${agentName(run.agent)} ${how}`, run.workingDir && shortPath(plainText(run.workingDir))].filter(Boolean).join(' · ') };
  }
  const needs = news.filter(needsYou).length;
  const failed = news.filter((r) => r.state === 'failed' || r.state === 'timeout').length;
  const done = news.length - needs - failed;
  const parts = [needs && `${needs} need${needs === 1 ? 's' : ''} an answer`, failed && `${failed} failed`, done && `${done} completed`];
  return { title: plural(news.length, 'run'), body: parts.filter(Boolean).join(', ') };
}

/** A question, by its kind: what it is about is for whoever opens it. */
export function questionMessage(q: Question): { title: string; body: string } {
  const where = q.workingDir && shortPath(plainText(q.workingDir));
  return { title: `${plainText(q.runTitle || q.run)}: ${actOf(q)}?`, body: [`${agentName(q.agentName ?? '')} waits for your answer`, where].filter(Boolean).join(' · ') };
}

interface News { run: Run; question?: Question }

let pending: News[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;
const shownQuestions = new Map<string, Notification>();

// When this tab took over from one that was closed, while it was hidden and not connected: that one has told what this tab
// then hears of the time before. What is older and arrives later is news. Questions are read after their runs.
let since = 0;
let heard: Map<string, unknown> | undefined; // the questions that this tab heard of; undefined: it has not heard all

/** Whether the tab before this one has told it. */
function told(run: Run, q?: Question): boolean {
  const at = ms(q ? q.askedAt : ended(run) ? run.endedAt : run.doing?.since ?? run.activeAt);
  return at !== 0 && at < since && (!heard || Boolean(q && heard.has(keyOf(q.run, q.id))));
}

/** Whether nobody has seen it elsewhere. */
function untold({ run, question: q }: News): boolean {
  const row = runs.get(run.run) ?? run; // as it is now
  return Boolean(q) || !ended(row) || unseen(row, serverNow());
}

function show(): void {
  timer = undefined;
  const news = pending.filter(untold);
  pending = [];
  if (notifying.value !== 'on' || !leader.value || document.hasFocus()) return;
  if (news.length > 3) return void notify(message(news.map((n) => n.run)), 'linesman', '/');
  for (const { run, question: q } of news) {
    if (!q) notify(message([run]), run.run, runPath(run.run));
    else {
      const shown = notify(questionMessage(q), keyOf(q.run, q.id), questionPath(q.run, q.id));
      if (shown) shownQuestions.set(keyOf(q.run, q.id), shown);
    }
  }
}

/** Shows a notification. Chrome on Android has them for service workers only, and says so when the first one is to be shown. */
export function notify({ title, body }: { title: string; body: string }, tag: string, path: string): Notification | undefined {
  let shown: Notification;
  try {
    shown = new Notification(title, { body, tag, icon: '/favicon.svg' });
  } catch {
    remember(key, null);
    notifying.value = 'unsupported';
    return undefined;
  }
  shown.onclick = () => {
    window.focus();
    navigate(path);
    shown.close();
  };
  return shown;
}

export function startNotifications(): void {
  addEventListener('storage', (e) => { // another tab switched them on or off; null: all that is stored has gone
    if (e.key === key || e.key === null) notifying.value = current();
  });
  const add = (run: Run, question?: Question): void => {
    if (told(run, question)) return;
    pending.push({ run, question });
    timer ??= setTimeout(show, 800);
  };
  effect(() => {
    if (!leader.value || document.visibilityState !== 'hidden' || stream.peek()?.state.peek() === 'live') return;
    since = serverNow();
    heard = undefined;
  });
  effect(() => {
    if (arrivedAll.value > 0) heard ??= wantedOf(runs.values());
  });
  updates.add((before, after) => {
    const news = newsOf(before, after);
    if (news === 'needs' && questionsOf(after!).length && allowed('answer')) return; // its questions tell
    if (news) add(after!);
  });
  arrivals.add((q) => {
    const run = runs.get(q.run);
    if (run) add(run, q);
  });
  effect(() => { // of a question that is answered nothing is left
    const open = new Set(inbox.value.filter((e) => !e.closed).map((e) => e.key));
    pending = pending.filter(({ question: q }) => !q || open.has(keyOf(q.run, q.id)));
    for (const [key, shown] of shownQuestions) {
      if (open.has(key)) continue;
      shown.close();
      shownQuestions.delete(key);
    }
  });
  effect(() => {
    void changed.value;
    let needs = 0;
    let news = 0;
    const at = serverNow();
    let failed = false;
    for (const run of runs.values()) {
      if (needsYou(run)) needs++;
      else if (unseen(run, at)) {
        news++;
        failed ||= run.state !== 'completed';
      }
    }
    const was = badge.peek();
    if (was.needs !== needs || was.unseen !== news || was.failed !== failed) badge.value = { needs, unseen: news, failed };
  });
}
