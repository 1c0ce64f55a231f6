// What people do with the questions of live runs. Roles and names only: no classes.

import { accessible, fits, live, row, same, signedIn, until, visit } from './page.mjs';
import { ask, command, edit, form, hostile, list, long, permission, several } from './requests.mjs';

export const phoneSized = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

const inbox = (page) => page.getByRole('region', { name: 'Questions' });
const card = (page, name) => inbox(page).getByRole('article', { name });
const feed = (page) => page.getByRole('feed', { name: 'Timeline' });
const nothingOpen = (page) => until('no question is left', async () => (await inbox(page).count()) === 0);
const focused = (page, what) => what.evaluate((e) => e.contains(document.activeElement));

/** A press counts once the question has been there for a moment: a person who reads it does not notice. */
export async function press(button, timeout = 60_000) {
  await button.waitFor({ timeout });
  await button.evaluate(() => new Promise((done) => {
    const begun = performance.now();
    requestAnimationFrame(function look(now) {
      if (now - begun > 700) done();
      else requestAnimationFrame(look);
    });
  }), undefined, { timeout });
  const coarse = await button.evaluate(() => matchMedia('(pointer: coarse)').matches, undefined, { timeout });
  await (coarse ? button.tap({ timeout }) : button.click({ timeout }));
}

/** What the agent was answered is in its timeline. */
async function answered(page, run, text) {
  await page.goto(`/runs/${run}`);
  await until('the end of the run', async () => {
    await page.keyboard.press('End');
    return (await feed(page).getByText('End of the run').count()) > 0;
  });
  await feed(page).getByText(text).first().waitFor();
}

/** On a phone a thumb answers, also while `up` is away in between. */
export async function phone(scene) {
  const page = await signedIn(scene, '/', { ...phoneSized, offline: true, theme: 'light' });
  await live(page);
  same('no question', await inbox(page).count(), 0);
  const run = await scene.call('ask', { name: 'phone', title: 'Fix the clock', requests: [edit] });
  const question = card(page, 'asker asks to edit files');
  await question.getByText('return now() > at;').waitFor();
  await fits(page, 'a question on a phone');
  await accessible(scene, page, 'a question on a phone');
  await page.screenshot({ path: `${scene.shots}/question-phone-light.png` });
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(scene, page, 'a question on a phone, dark');
  await page.screenshot({ path: `${scene.shots}/question-phone-dark.png` });
  // Nothing is left out: the long change can be opened to its last line.
  await question.getByText('src/generated.ts').tap();
  await question.getByText('export const value299 = 299;').waitFor({ state: 'attached' });
  // The answers stay in reach, and are large enough.
  for (const name of ['Yes allow once', 'No deny once']) {
    const { x, y, width, height } = await question.getByRole('button', { name }).boundingBox();
    if (height < 44 || width < 100 || x < 0 || x + width > 390 || y < 422 || y + height > 844) throw new Error(`${name}: ${JSON.stringify({ x, y, width, height })}`);
  }
  // Before the answer, and with it, `up` is away.
  await scene.call('kill');
  await page.getByRole('banner').getByText('Offline').waitFor();
  await press(question.getByRole('button', { name: 'Yes allow once' }));
  await question.getByText('it is not known whether the answer was stored').waitFor();
  await accessible(scene, page, 'an answer without a reply');
  await page.screenshot({ path: `${scene.shots}/question-offline.png` });
  await scene.call('start');
  await live(page);
  await question.getByRole('button', { name: 'Send it again' }).tap();
  await inbox(page).getByText('Allowed by you').waitFor();
  await nothingOpen(page);
  await answered(page, run, 'ask0: {"outcome":{"optionId":"yes","outcome":"selected"}}');
  await feed(page).getByText('Allowed by a person: q1').waitFor();
  await feed(page).getByText(/^People are asked: q1, denied at/).waitFor();
}

/** A question that is answered in one tab disappears in the other, which goes on with the next one. */
export async function twoTabs(scene) {
  const [a, b] = [await signedIn(scene), await signedIn(scene, '/', { offline: true })];
  const first = await scene.call('ask', { name: 'first', title: 'First of two', requests: [command] });
  await card(a, 'asker asks to run a command').getByText('First of two').waitFor();
  const second = await scene.call('ask', { name: 'second', title: 'Second of two', requests: [edit] });
  for (const page of [a, b]) {
    await inbox(page).getByRole('heading', { name: '2 questions wait for your answer' }).waitFor();
    await card(page, 'asker asks to run a command').getByText('npm install').first().waitFor();
  }
  await accessible(scene, a, 'two questions');
  await fits(a, 'two questions');
  for (const theme of ['light', 'dark']) {
    await a.emulateMedia({ colorScheme: theme });
    await a.screenshot({ path: `${scene.shots}/questions-${theme}.png` });
  }
  await press(card(a, 'asker asks to run a command').getByRole('button', { name: 'No deny once' }));
  await inbox(a).getByText('Denied by you').waitFor();
  await card(b, 'asker asks to edit files').getByText('Second of two').waitFor();
  same('the question in the other tab', await card(b, 'asker asks to run a command').count(), 0);
  // Both answer at once, differently: one decision holds, and the other tab says which.
  await b.route('**/answer', async (route) => {
    await press(card(a, 'asker asks to edit files').getByRole('button', { name: 'Yes allow once' }));
    await inbox(a).getByText('Allowed by you').waitFor();
    await route.continue();
  });
  await press(card(b, 'asker asks to edit files').getByRole('button', { name: 'No deny once' }));
  await inbox(b).getByRole('alert').getByText(/Your answer does not count: question q1 is (answered: the answer was “Yes”, by owner|not open any more)/).waitFor();
  await answered(a, first, 'ask0: {"outcome":{"optionId":"no","outcome":"selected"}}');
  await feed(a).getByText('Denied by a person: q1').waitFor();
  await answered(a, second, 'ask0: {"outcome":{"optionId":"yes","outcome":"selected"}}');
}

/** Keys answer the question with the focus, and none that has just come under it. */
export async function keys(scene) {
  const page = await signedIn(scene);
  const run = await scene.call('ask', { name: 'keys', title: 'By keys', requests: [command, edit] });
  const [first, second] = [card(page, 'asker asks to run a command'), card(page, 'asker asks to edit files')];
  await inbox(page).getByRole('heading', { name: '2 questions wait for your answer' }).waitFor();
  await first.waitFor();
  await page.keyboard.press('a'); // nothing has the focus
  await page.keyboard.press('q');
  await until('the question has the focus', () => focused(page, first));
  await page.keyboard.press('a'); // too early
  await page.keyboard.press('Control+d');
  await page.keyboard.press('Shift+D');
  same('questions after early keys and modifiers', await first.count(), 1);
  await press(first.getByText('npm install').first());
  await page.keyboard.press('d');
  await page.keyboard.press('a'); // meant for the same question
  await inbox(page).getByText('Denied by you').waitFor();
  await second.waitFor();
  await until('the next question has the focus', () => focused(page, second));
  await press(second.getByText('Edit src/clock.ts'));
  await page.keyboard.press('a');
  await inbox(page).getByText('Allowed by you').waitFor();
  await nothingOpen(page);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).getByText('Allow the question that has the focus, once').waitFor();
  await page.keyboard.press('Escape');
  await answered(page, run, 'ask0: {"outcome":{"optionId":"no","outcome":"selected"}}');
  await feed(page).getByText('ask1: {"outcome":{"optionId":"yes","outcome":"selected"}}').first().waitFor();
}

/** A form is filled in, and one that the page does not know is declined. */
export async function forms(scene) {
  const page = await signedIn(scene, '/', phoneSized);
  const run = await scene.call('ask', { name: 'form', title: 'Choose a database', requests: [ask] });
  const question = card(page, 'asker asks you something');
  await question.getByText('Which database do the tests use?').waitFor();
  await fits(page, 'a form');
  await accessible(scene, page, 'a form');
  await page.screenshot({ path: `${scene.shots}/question-form.png` });
  same('the default', await question.getByLabel(/^Name/).inputValue(), 'shop_test');
  await question.getByLabel(/^Retries/).fill('9');
  await page.keyboard.press('d'); // while one types it is a letter
  await press(question.getByRole('button', { name: 'Submit' }));
  await question.getByText('Database is required').waitFor();
  await question.getByText('Retries must be a number').waitFor();
  await accessible(scene, page, 'a form with mistakes');
  await question.getByLabel(/^SQLite/).check();
  await question.getByLabel(/^Retries/).fill('0');
  await question.getByLabel(/^Name/).fill('');
  await question.getByLabel('Keep it after the tests').check();
  await page.getByRole('link', { name: 'Choose a database' }).first().click(); // what is filled in stays, on each page
  await page.getByRole('heading', { level: 1, name: 'Choose a database' }).waitFor();
  same('what was filled in', [await question.getByLabel(/^Retries/).inputValue(), await question.getByLabel(/^SQLite/).isChecked()], ['0', true]);
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  await press(question.getByRole('button', { name: 'Submit' }));
  await inbox(page).getByText('Submitted by you').waitFor();
  await answered(page, run, 'ask0: {"action":"accept","content":{"database":"sqlite","retries":0,"keep":true}}');
  await page.goto('/');
  const other = await scene.call('ask', { name: 'list', title: 'Choose files', requests: [list] });
  await question.getByText('This can only be declined or cancelled here').waitFor();
  same('Submit', await question.getByRole('button', { name: 'Submit' }).count(), 0);
  await press(question.getByRole('button', { name: 'Decline' }));
  await inbox(page).getByText('Declined by you').waitFor();
  await answered(page, other, 'ask0: {"action":"decline"}');
}

/** Several are chosen by touch and by keys, as many as the form wants. */
export async function severalChoices(scene) {
  const page = await signedIn(scene, '/', phoneSized);
  const run = await scene.call('ask', { name: 'several', title: 'Choose checks', requests: [several] });
  const question = card(page, 'asker asks you something');
  const checks = question.getByRole('group', { name: 'Checks' });
  await checks.getByText('1 to 2 of these').waitFor();
  await fits(page, 'a list of choices');
  await accessible(scene, page, 'a list of choices');
  await page.screenshot({ path: `${scene.shots}/question-several.png` });
  same('the default', await checks.getByLabel('Lint').isChecked(), true);
  await checks.getByText('Unit tests').tap();
  await checks.getByLabel('Lint').focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  same('by the key', await checks.getByLabel('End to end').isChecked(), true);
  await press(question.getByRole('button', { name: 'Submit' }));
  await question.getByText('Checks must have at most 2').waitFor();
  await accessible(scene, page, 'too many choices');
  await checks.getByText('Lint').tap();
  await press(question.getByRole('button', { name: 'Submit' }));
  await inbox(page).getByText('Submitted by you').waitFor();
  await answered(page, run, 'ask0: {"action":"accept","content":{"checks":["unit","e2e"]}}');
}

/** What a program asks by a file is answered with a text. */
export async function textQuestion(scene) {
  const page = await signedIn(scene, '/', phoneSized);
  await scene.call('request', { prompt: 'Which branch\u202e is it?\n\u001b[2J<b>main</b> or next?' });
  const question = card(page, 'A program asks you something');
  await question.getByText('Which branch⟨U+202E⟩ is it?').waitFor();
  await question.getByText('⟨U+001B⟩[2J<b>main</b> or next?').waitFor();
  await fits(page, 'a text');
  await accessible(scene, page, 'a text');
  await page.screenshot({ path: `${scene.shots}/question-text.png` });
  await press(question.getByRole('button', { name: 'Send' }));
  await question.getByText('Answer is required').waitFor();
  await accessible(scene, page, 'a text that is missing');
  await question.getByLabel('Answer').fill('next,\nad');
  await press(question.getByRole('button', { name: 'Send' }));
  await inbox(page).getByText('Answered by you').waitFor();
  same('the response', await scene.call('response'), 'next,\nad');
  await nothingOpen(page);
}

/** What is shortened can be allowed only after all of it was shown. */
export async function cutQuestion(scene) {
  const page = await signedIn(scene, '/', phoneSized);
  const run = await scene.call('ask', { name: 'long', title: 'A long script', requests: [long] });
  const question = card(page, 'asker asks to run a command');
  const yes = question.getByRole('button', { name: 'Yes allow once' });
  await yes.waitFor();
  same('Yes, before the request was opened', [await yes.isDisabled(), await question.getByRole('button', { name: 'No deny once' }).isDisabled()], [true, false]);
  await accessible(scene, page, 'a shortened question');
  await fits(page, 'a shortened question');
  await page.screenshot({ path: `${scene.shots}/question-cut.png` });
  await question.getByRole('button', { name: 'Open the whole request' }).tap();
  const whole = question.getByRole('group', { name: 'The whole request' });
  await whole.waitFor();
  same('the whole request', (await whole.textContent()).includes(`${'0123456789'.repeat(30_000)}'; echo the end`), true);
  await fits(page, 'a whole request');
  await press(yes);
  await inbox(page).getByText('Allowed by you').waitFor();
  await answered(page, run, 'ask0: {"outcome":{"optionId":"yes","outcome":"selected"}}');
}

/** What lasts is apart, and takes two presses. */
export async function lasting(scene) {
  const page = await signedIn(scene, '/', { theme: 'light' });
  const run = await scene.call('ask', { name: 'lasting', title: 'For good', requests: [command] });
  const question = card(page, 'asker asks to run a command');
  const always = question.getByRole('group', { name: 'For the rest of the session or longer: changes the agent’s own settings' }).getByRole('button');
  const sent = [];
  page.on('request', (r) => r.method() === 'POST' && sent.push(r.url()));
  await press(always);
  await question.getByText('Press again to confirm').waitFor();
  await accessible(scene, page, 'an answer that lasts');
  await page.screenshot({ path: `${scene.shots}/question-lasting.png` });
  same('what one press sends', sent, []);
  await until('the second press answers', async () => { // in time: on a slow machine the first one is forgotten
    if ((await question.count()) > 0) await press(always, 5000).catch(() => {}); // the one before was it
    return (await question.count()) === 0;
  });
  await nothingOpen(page);
  await answered(page, run, '"optionId":"always"');
}

/** A notification of the browser has the title of the run and the kind of the tool, and opens the question. It answers nothing. */
export async function notification(scene) {
  const page = await signedIn(scene, '/', { permissions: ['notifications'] });
  await page.context().addInitScript(() => {
    window.notes = [];
    class Note {
      static permission = 'granted';
      static requestPermission = async () => 'granted';
      constructor(title, options) {
        Object.assign(this, { title, ...options });
        window.notes.push(this);
      }
      close() {
        this.closed = true;
      }
    }
    window.Notification = Note;
    document.hasFocus = () => false;
  });
  await page.reload();
  await live(page);
  await page.getByRole('button', { name: 'Notify me when a run ends or needs an answer' }).click();
  await page.getByRole('button', { name: 'Notifications are on' }).waitFor();
  const sent = [];
  page.on('request', (r) => r.method() !== 'GET' && sent.push(`${r.method()} ${r.url()}`));
  const run = await scene.call('ask', { name: 'note', title: 'Tell me', requests: [command] });
  await until('a notification', () => page.evaluate(() => window.notes.length === 1 || window.notes));
  const { title, body } = await page.evaluate(() => ({ ...window.notes[0] }));
  same('the notification', [title, body.includes('npm'), body.startsWith('asker waits for your answer')], ['Tell me: run a command?', false, true]);
  await page.evaluate(() => window.notes[0].onclick());
  const question = card(page, 'asker asks to run a command');
  await until('the question has the focus', () => focused(page, question));
  same('the address', page.url().slice(new URL(page.url()).origin.length), `/runs/${run}?q=q1`);
  const { y } = await question.boundingBox();
  if (y < 44 || y > 600) throw new Error(`the question is at ${y}`);
  await accessible(scene, page, 'the page of a run that asks');
  for (const theme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: theme });
    await page.screenshot({ path: `${scene.shots}/question-run-${theme}.png` });
  }
  same('what was sent', sent, []);
  await page.reload(); // the link alone shows it, too
  await until('the question has the focus again', () => focused(page, question));
  await press(question.getByRole('button', { name: 'No deny once' }));
  await inbox(page).getByText('Denied by you').waitFor();
  await nothingOpen(page);
  await feed(page).getByText('End of the run').waitFor();
  await page.reload();
  await page.getByText('Question q1 is not open any more').waitFor();
}

/** What an agent writes into a question is text: nothing runs, loads, moves what is beside it, or leaves the screen. */
export async function hostileQuestions(scene) {
  const page = await signedIn(scene, '/', { ...phoneSized, theme: 'light' });
  const run = await scene.call('ask', { name: 'hostile', title: '<img src=x onerror="window.pwned=1">pwned', requests: hostile });
  await inbox(page).getByRole('heading', { name: '2 questions wait for your answer' }).waitFor();
  const check = async (where, question) => {
    await question.waitFor();
    for (const summary of await question.locator('summary').all()) await summary.evaluate((e) => (e.parentElement.open = true));
    same(where, await page.evaluate(() => [
      window.pwned, ...[...document.querySelectorAll('main :is(script, iframe, object, embed, img, image, video, audio, style, link, base, meta, marquee)')].map((e) => e.outerHTML.slice(0, 120)),
      ...[...document.querySelectorAll('main *')].flatMap((e) => [...e.attributes].filter((a) => /^on/i.test(a.name)).map((a) => `${e.tagName} ${a.name}`)),
      ...(/[\u200b\u200f\u202a-\u202e\u2066-\u2069\u00a0\u{e0041}\u001b]/u.exec(document.querySelector('main section').textContent) ?? []).map((c) => `U+${c.codePointAt(0).toString(16)}`),
    ].filter(Boolean)), []);
    await fits(page, where);
    await accessible(scene, page, where);
  };
  const asks = card(page, 'asker asks to use a tool');
  await check('a hostile permission', asks);
  await page.screenshot({ path: `${scene.shots}/question-hostile.png`, fullPage: true });
  same('what the row of the run hides', await row(page, '<img src=x onerror="window.pwned=1">pwned').last().evaluate((e) => /[\u200b\u200f\u202a-\u202e\u2066-\u2069\u{e0041}\u001b]/u.test(e.outerHTML)), false);
  const text = await asks.textContent();
  for (const part of ['<script>window.pwned=1</script>', '⟨U+202E⟩gnp.exe', '⟨U+001B⟩[31mred', 'x'.repeat(3000), 'Allow it all '.repeat(200).trim(), 'n'.repeat(900)]) same(`${part.slice(0, 40)} as text`, text.includes(part), true);
  same('an answer that allows and is called deny', text.includes('deny that allows'), false);
  // Each answer says what it is, whatever its name says.
  const permits = asks.getByRole('button', { name: /^Deny <img.* allow once$/ });
  const denies = asks.getByRole('button', { name: /^Allow it all .* deny once$/ });
  same('the answers', [await permits.count(), await denies.count()], [1, 1]);
  for (const button of [permits, denies]) {
    const { height } = await button.boundingBox();
    if (height > 200) throw new Error(`an answer is ${height} px high`);
  }
  await press(denies);
  await inbox(page).getByText('Denied by you').waitFor();
  const asked = card(page, 'asker asks you something');
  await check('a hostile form', asked);
  await page.screenshot({ path: `${scene.shots}/question-hostile-form.png`, fullPage: true });
  same('a field', await asked.getByLabel('__proto__').count(), 1);
  await asked.getByLabel('__proto__').fill('polluted');
  await asked.getByRole('radio').first().check();
  await press(asked.getByRole('button', { name: 'Submit' }));
  await inbox(page).getByText('Submitted by you').waitFor();
  await answered(page, run, ':"polluted"'); // its name is bold here
}

/** Who may not answer sees that something waits, and nothing of it. */
export async function notAllowed(scene) {
  const title = 'Not for readers';
  const run = await scene.call('ask', { name: 'readers', title, requests: [permission({ title: 'hidden', kind: 'execute', rawInput: { command: 'hidden' } })] });
  const owner = await signedIn(scene);
  await card(owner, 'asker asks to run a command').waitFor();
  const page = await visit(scene, new URL(owner.url()).origin);
  await page.getByLabel('Or paste a token').fill(scene.reader);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await live(page);
  const asked = [];
  page.on('request', (r) => r.url().includes('/questions') && asked.push(r.url()));
  for (const path of ['/', `/runs/${run}`]) {
    await page.goto(path);
    await inbox(page).getByText('1 question waits for an answer. This login may not answer: it lacks the scope answer.').waitFor();
    await accessible(scene, page, `a question for others, ${path}`);
    await page.screenshot({ path: `${scene.shots}/question-not-allowed.png` });
    same('buttons', await inbox(page).getByRole('button').count(), 0);
  }
  await page.goto('/');
  await row(page, title).getByText('needs you', { exact: true }).waitFor();
  same('requests', asked, []);
  await press(card(owner, 'asker asks to run a command').getByRole('button', { name: 'No deny once' }));
  await nothingOpen(page);
}
