// What people do with the messages of a live run that is kept. Roles and names only: no classes.

import { accessible, desktop, fits, same, signedIn, until } from './page.mjs';
import { phoneSized } from './questions.mjs';

/** Two messages, one of which waits: it is edited, held, released; another one is lost on its way, taken back, sent at once. */
async function talk(scene, size, options) {
  const run = await scene.call('keep', { title: `Talk at a ${size}`, prompt: 'Say one.' });
  const page = await signedIn(scene, `/runs/${run}`, { ...options, offline: true });
  const composer = page.getByRole('region', { name: 'Messages' });
  const field = composer.getByLabel('Message to asker');
  const button = (name) => composer.getByRole('button', { name, exact: true });
  const feed = page.getByRole('feed', { name: 'Timeline' });
  const press = (name) => (options.hasTouch ? button(name).tap() : button(name).click());
  const look = async (where) => {
    await fits(page, `${where} at a ${size}`);
    for (const theme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: theme });
      await accessible(scene, page, `${where} at a ${size}, ${theme}`);
      await page.screenshot({ path: `${scene.shots}/messages-${where.replaceAll(' ', '-')}-${size}-${theme}.png` });
    }
  };
  await feed.getByText('You said: Say one.').waitFor();
  await page.getByText('idle: waits for a message').waitFor();
  same('what waits', await composer.getByRole('listitem').count(), 0);
  await look('idle');
  // By keys.
  await page.keyboard.press('m');
  await page.keyboard.type('hold');
  await page.keyboard.press('Control+Enter');
  await button('Cancel turn 2').waitFor();
  await until('the field is empty', async () => (await field.inputValue()) === '');
  // One waits, and is changed; what was typed is there again.
  await field.fill('Say two,\nover two lines.');
  await press('Send');
  await composer.getByText('1 message waits for the end of turn 2').waitFor();
  await composer.getByRole('listitem').getByText('Say two,').waitFor();
  await field.fill('later');
  await press('Edit message 1');
  await until('the text is in the field', async () => (await field.inputValue()) === 'Say two,\nover two lines.');
  await field.fill('Say three.');
  await press('Save');
  await composer.getByRole('listitem').getByText('Say three.').waitFor();
  same('what was typed before', await field.inputValue(), 'later');
  // A reply that is lost: it is sent again, and once.
  const lose = () => page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    await route.fetch();
    await route.abort();
  });
  await lose();
  await press('Send');
  await composer.getByRole('alert').getByText('It is safe to try again').waitFor();
  same('the text is kept', await field.inputValue(), 'later');
  await page.unroute('**/messages');
  await press('Send');
  await until('the field is empty', async () => (await field.inputValue()) === '');
  same('what waits', await composer.getByRole('listitem').count(), 2);
  await composer.getByText('2 messages wait for the end of turn 2').waitFor();
  await look('waiting');
  await press('Remove message 2');
  await composer.getByText('1 message waits for the end of turn 2').waitFor();
  // The turn is cancelled, and what waits is held.
  await press('Cancel turn 2');
  await composer.getByText('1 message is held: turn 2 was not completed').waitFor();
  await page.getByText('idle: waits for a message').waitFor();
  await feed.getByText('aborted', { exact: true }).waitFor();
  await look('held');
  await press('Release');
  await feed.getByText('You said: Say three.').waitFor();
  await page.getByText('idle: waits for a message').waitFor();
  await field.fill('hold');
  await press('Send');
  await button('Cancel turn 4').waitFor();
  await field.fill('Say four.');
  await press('Send now');
  await feed.getByText('You said: Say four.').waitFor();
  await page.getByText('idle: waits for a message').waitFor();
  // "Send now" without a reply ends its turn: "Send" is the same message then.
  await field.fill('hold');
  await press('Send');
  await button('Cancel turn 6').waitFor();
  await field.fill('Say six.');
  await lose();
  await press('Send now');
  await composer.getByRole('alert').getByText('It is safe to try again').waitFor();
  await feed.getByText('You said: Say six.').waitFor();
  await page.getByText('idle: waits for a message').waitFor();
  await page.unroute('**/messages');
  await press('Send');
  await until('the field is empty', async () => (await field.inputValue()) === '');
  // The feed tells of a message before the run does: while one waits, End asks first.
  await until('nothing waits', async () => (await composer.getByText(/^\d+ messages? /).count()) === 0);
  same('how often it was sent', await feed.getByText('You said: Say six.').count(), 1);
  await press('End');
  await feed.getByText('End of the run').waitFor();
  same('the field of a run that has ended', await composer.count(), 0);
}

export const messages = async (scene) => {
  await talk(scene, 'desktop', { viewport: desktop });
  await talk(scene, 'phone', phoneSized);
};
