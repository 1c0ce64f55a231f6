// A conversation with an agent, from the form that begins it to its end. Roles and names only: no classes.

import { accessible, desktop, fits, same, signedIn, until } from './page.mjs';
import { phoneSized } from './questions.mjs';

async function converse(scene, size, options) {
  const page = await signedIn(scene, '/', options);
  const touch = Boolean(options.hasTouch);
  const press = (what) => (touch ? what.tap() : what.click());
  const look = async (where) => {
    await fits(page, `${where} at a ${size}`);
    for (const theme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme: theme });
      await accessible(scene, page, `${where} at a ${size}, ${theme}`);
      await page.screenshot({ path: `${scene.shots}/conversation-${where.replaceAll(' ', '-')}-${size}-${theme}.png` });
    }
  };
  // The form: only an agent that can be live offers it.
  await press(page.getByRole('button', { name: 'New task' }).first());
  const form = page.getByRole('dialog', { name: 'New task' });
  await form.getByLabel('What is to be done').fill('Say one.');
  await form.getByLabel('Agent', { exact: true }).selectOption('asker');
  await form.getByLabel('Directory', { exact: true }).fill(scene.lab);
  same('a conversation is offered when the run is live', await form.getByLabel('Keep open').count(), 0);
  await form.getByLabel('Live').check();
  await form.getByLabel('Keep open').check();
  await press(form.getByRole('button', { name: 'Model, time limit and more' }));
  await form.getByLabel('Rules').fill('ask edit\ndeny fetch');
  await look('form');
  await press(form.getByRole('button', { name: 'Queue the task' }));
  // Its first turn, then it sleeps.
  const composer = page.getByRole('region', { name: 'Messages' });
  const field = composer.getByLabel('Message to asker');
  const button = (name) => composer.getByRole('button', { name, exact: true });
  const feed = page.getByRole('feed', { name: 'Timeline' });
  const send = async (text) => {
    await field.fill(text);
    await press(button('Send'));
  };
  await feed.getByText('You said: Say one.').waitFor();
  const asleep = () => until('it sleeps', async () => (await field.getAttribute('placeholder')) === 'The next message wakes the agent');
  await asleep();
  // A message wakes it. Until its turn begins there is none that could be cancelled.
  await scene.call('holdWakes');
  await send('hold');
  await composer.getByText('1 message waits for the agent').waitFor();
  await until('the agent starts', async () => (await feed.getByText('agent started').count()) > 1 || (await page.getByText('starting').count()) > 0);
  same('turns to cancel', await composer.getByRole('button', { name: /Cancel turn|Send now/ }).count(), 0);
  await scene.call('letWake');
  await button('Cancel turn 2').waitFor();
  await send('edit');
  await composer.getByText('1 message waits for the end of turn 2').waitFor();
  await press(button('Cancel turn 2'));
  await press(button('Release'));
  await feed.getByText('You said: edit').waitFor();
  // Comments on its changes, by keys or by a thumb.
  const call = feed.getByRole('button', { name: /src\/clock.ts/ });
  await press(call);
  await press(feed.getByRole('option').filter({ hasText: '}' }).last());
  await look('timeline');
  await press(page.getByRole('button', { name: 'Leave' }));
  await press(page.getByRole('radio', { name: 'Changes' }));
  const lines = page.getByRole('listbox', { name: 'Lines of src/clock.ts' });
  const line = (text) => lines.getByRole('option').filter({ hasText: text });
  const comment = page.getByLabel(/^Comment on src\/clock.ts/);
  if (touch) {
    await line('export function').tap();
    await line('return now()').tap();
    await page.getByLabel('Comment on src/clock.ts:1-2').waitFor();
    const { height } = await line('return now()').boundingBox();
    if (height < 30) throw new Error(`a line is ${height} px high`);
    await comment.fill('Name it overdue.');
    await look('comment');
    await page.getByRole('button', { name: 'Add comment' }).tap();
  } else {
    await lines.focus();
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Enter');
    await until('the field has the focus', () => comment.evaluate((e) => e === document.activeElement));
    await page.keyboard.type('Name it overdue.');
    await look('comment');
    await page.keyboard.press('Control+Enter');
  }
  await composer.getByText('1 comment on the changes').waitFor();
  await press(line('return now()'));
  await page.getByLabel('Comment on src/clock.ts:2').fill('Use >=.');
  await press(page.getByRole('button', { name: 'Add comment' }));
  await press(line('}').last());
  await comment.fill('No comment.');
  await press(page.getByRole('button', { name: 'Add comment' }));
  // They stay when the page is loaded again; one is taken back, the others are one message.
  await page.reload();
  await press(composer.getByText('3 comments on the changes'));
  await press(button('Remove comment 3'));
  await composer.getByText('2 comments on the changes').waitFor();
  await look('comments');
  await asleep();
  if (touch) await button('Send 2 comments').tap();
  else await button('Send 2 comments').dblclick();
  await until('no comment is left', async () => (await composer.getByText('on the changes').count()) === 0);
  await press(page.getByRole('radio', { name: 'Timeline' }));
  await page.keyboard.press('f'); // to the newest
  await feed.getByText('You said: Comments on your changes:').waitFor();
  for (const text of ['src/clock.ts:1-2', 'Name it overdue.', 'src/clock.ts:2', 'Use >=.']) await feed.getByText(text).first().waitFor();
  await asleep();
  same('messages', await feed.getByText('You said: Comments').count(), 1);
  await look('told');
  // Nothing that was typed or collected is left to whoever signs in next.
  await press(page.getByRole('radio', { name: 'Changes' }));
  await press(line('return now()'));
  await comment.fill('Later.');
  await press(page.getByRole('button', { name: 'Add comment' }));
  await composer.getByText('1 comment on the changes').waitFor();
  await field.fill('Not sent.');
  const { pathname } = new URL(page.url());
  await press(page.getByRole('button', { name: 'Menu' }));
  await press(page.getByRole('button', { name: 'Sign out' }));
  await page.getByRole('heading', { name: 'Sign in to linesman' }).waitFor();
  same('the path', new URL(page.url()).pathname, '/');
  await page.goto(`${await scene.call('link')}&next=${encodeURIComponent(pathname)}`);
  await button('End').waitFor();
  same('what was typed', await field.inputValue(), '');
  same('comments', await composer.getByText('on the changes').count(), 0);
  // It ends, and can be begun again as it was.
  await press(button('End'));
  await press(page.getByRole('button', { name: 'Run again' }));
  for (const name of ['Live', 'Keep open']) same(name, await form.getByLabel(name).isChecked(), true);
  same('rules', await form.getByLabel('Rules').inputValue(), 'ask edit\ndeny fetch');
  await page.keyboard.press('Escape');
}

export const conversation = async (scene) => {
  await converse(scene, 'desktop', { viewport: desktop });
  await converse(scene, 'phone', phoneSized);
};
