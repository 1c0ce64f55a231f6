// A day of a person who talks to an agent on a phone. Each scenario is a step of it, on the page that the first one opens.
// Roles and names only: no classes.

import { same, signedIn, until } from './page.mjs';
import { phoneSized, press } from './questions.mjs';

let page;

const composer = () => page.getByRole('region', { name: 'Messages' });
const button = (name) => composer().getByRole('button', { name, exact: true });
const feed = () => page.getByRole('feed', { name: 'Timeline' });
const inbox = () => page.getByRole('region', { name: 'Questions' });

/** Begins a conversation by the form, and returns its run. */
export async function dayBegins(scene) {
  page = await signedIn(scene, '/', { ...phoneSized, offline: true });
  await page.getByRole('button', { name: 'New task' }).first().tap();
  const form = page.getByRole('dialog', { name: 'New task' });
  await form.getByLabel('What is to be done').fill(scene.text);
  await form.getByLabel('Agent', { exact: true }).selectOption(scene.agent);
  await form.getByLabel('Directory', { exact: true }).fill(scene.directory);
  await form.getByLabel('Live').check();
  await form.getByLabel('Keep open').check();
  await form.getByRole('button', { name: 'Queue the task' }).tap();
  await composer().waitFor();
  return new URL(page.url()).pathname.split('/').at(-1);
}

/** Sends a message. */
export async function daySends({ text }) {
  const field = composer().getByRole('textbox');
  await field.fill(text);
  await button('Send').tap();
  await until('the field is empty', async () => (await field.inputValue()) === '');
}

/** Sees what is asked, in full. */
export async function dayIsAsked({ text }) {
  await inbox().getByRole('article').getByText(text).first().waitFor();
}

/** Answers it with the option of a kind. It is sent again if nobody knows whether it was stored. */
export async function dayAnswers({ kind }) {
  const question = inbox().getByRole('article');
  await press(question.getByRole('button', { name: new RegExp(`${kind}$`) }));
  await until('the question is answered', async () => {
    const again = question.getByRole('button', { name: 'Send it again' });
    if (await again.count()) await again.tap();
    return (await inbox().count()) === 0;
  });
}

/** Sees something in the timeline. */
export async function daySees({ text }) {
  await until(`the timeline shows ${text}`, async () => {
    if (await page.getByRole('banner').getByText('Live', { exact: true }).count() === 0) return 'it is not live';
    return (await feed().getByText(text, { exact: true }).count()) > 0 || (await feed().innerText()).slice(-400);
  }, 120_000);
}

/** Sees that a message waits. */
export async function dayWaits({ text }) {
  await composer().getByRole('listitem').getByText(text).waitFor();
}

/** Lets go what is held. */
export async function dayReleases() {
  await composer().getByText(/is held/).waitFor({ timeout: 120_000 });
  await button('Release').tap();
}

/** Sees that linesman is away. */
export async function dayIsOffline() {
  await page.getByRole('banner').getByText('Offline').waitFor();
}

/** Ends the conversation. */
export async function dayEnds() {
  await button('End').tap();
}

/** Opens the conversation again, and reads it from its beginning to its end. */
export async function dayReads() {
  await feed().getByText('End of the run').waitFor();
  same('the field of a run that has ended', await composer().count(), 0);
  await page.reload();
  const rows = new Map(); // the timeline has those that can be seen
  await until('the timeline is read', async () => {
    for (const row of await feed().getByRole('article').all()) rows.set(Number(await row.getAttribute('aria-posinset')), await row.innerText());
    await page.mouse.wheel(0, 400);
    return [...rows.values()].some((text) => text.includes('End of the run'));
  });
  return [...rows].sort(([a], [b]) => a - b).map(([, text]) => text);
}
