// What people do with the page. Roles and names only: no classes.

import { accessible, fits, live, row, same, signedIn, until, visit } from './page.mjs';

/** The link signs in once, a token with its scopes, and the menu signs out. */
export async function signIn(scene) {
  const link = await scene.call('link');
  const page = await visit(scene, link);
  await live(page);
  same('the address after the link', new URL(page.url()).pathname + new URL(page.url()).search, '/');
  const [cookie] = await page.context().cookies();
  same('the cookie', [cookie.httpOnly, cookie.sameSite, cookie.secure, cookie.name], [true, 'Strict', false, `linesman_${new URL(link).port}`]);
  same('what scripts see of it', await page.evaluate(() => document.cookie + JSON.stringify([...Object.entries(localStorage), ...Object.entries(sessionStorage)])).then((all) => all.includes(cookie.value)), false);
  await page.goto(link); // again, in the same browser
  await live(page);

  const other = await visit({ ...scene, open: [] }, link, { offline: true }).catch((e) => e);
  same('the link elsewhere', await other.getByText('linesman page').count(), 1);
  await other.goto(new URL(link).origin);
  await other.getByRole('heading', { name: 'Sign in to linesman' }).waitFor();
  await accessible(scene, other, 'sign-in');
  await fits(other, 'sign-in');
  await other.screenshot({ path: `${scene.shots}/signin-dark.png` });
  await other.getByLabel('Or paste a token').fill('wrong');
  await other.getByRole('button', { name: 'Sign in' }).click();
  await other.getByText('This token is not valid').waitFor();
  await other.getByLabel('Or paste a token').fill(scene.reader);
  await other.getByRole('button', { name: 'Sign in' }).click();
  await live(other);
  same('"New task" for a reader', await other.getByRole('button', { name: 'New task' }).count(), 0);
  await other.getByRole('button', { name: 'Menu' }).click();
  await other.getByText('reader', { exact: true }).waitFor();
  await other.getByRole('button', { name: 'Sign out' }).click();
  await other.getByRole('heading', { name: 'Sign in to linesman' }).waitFor();
  await other.reload();
  await other.getByRole('heading', { name: 'Sign in to linesman' }).waitFor();
  await other.context().close();
}

/** Recorded runs are there, and can be searched, filtered and opened with the keyboard. */
export async function overview(scene) {
  const page = await signedIn(scene);
  for (const title of scene.titles) await row(page, title).waitFor();
  await accessible(scene, page, 'overview');
  // What came of each: a cause and what to try, or the answer with files.
  await row(page, 'Fail for a reason').getByText('Codex ran out of room').waitFor();
  await row(page, 'Fail for a reason').getByText('Start a new thread, with a smaller task').waitFor();
  await row(page, 'Edit with Gemini').getByText(/^\d files?$/).waitFor();
  for (const theme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme: theme });
    await page.screenshot({ path: `${scene.shots}/overview-${theme}.png` });
  }
  const search = page.getByRole('searchbox', { name: 'Search runs' });
  await page.keyboard.press('/');
  await page.keyboard.type(scene.titles[0]);
  await until('one run is found', async () => (await page.getByRole('listitem').count()) === 1 || await page.getByRole('listitem').count());
  same('the address of a search', new URL(page.url()).searchParams.get('q'), scene.titles[0]);
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await until('the run is open', () => new URL(page.url()).pathname.startsWith('/runs/'));
  const focused = () => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent}`);
  await until('the focus is at the heading', async () => (await focused()) === `H1 ${scene.titles[0]}` || focused());
  await page.goBack();
  await until('the focus is at the row again', async () => (await focused()) === `A ${scene.titles[0]}` || focused());
  same('the search after going back', await search.inputValue(), scene.titles[0]);
  await search.fill('no such run at all');
  await page.getByRole('button', { name: 'Show all runs' }).click();
  await row(page, scene.titles[0]).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await accessible(scene, page, 'shortcuts');
  await page.keyboard.press('Escape');
  await until('the dialog is closed', async () => (await page.getByRole('dialog').count()) === 0);
}

/** A run appears when it starts, and its end is seen, without a reload. */
export async function liveRun(scene) {
  const page = await signedIn(scene);
  await live(page);
  const title = await scene.call('begin', { lines: 60 });
  await row(page, title).getByText('running', { exact: true }).waitFor();
  // It opens at its newest line, with its title and state, which stay while one scrolls.
  await row(page, title).getByRole('link', { name: title }).click();
  await feed(page).getByText('Line number 60.').waitFor();
  const heading = page.getByRole('heading', { level: 1, name: title });
  const inside = async (what) => {
    const [box, { height }] = [await what.boundingBox(), page.viewportSize()];
    return box !== null && box.y >= 0 && box.y + box.height <= height || box;
  };
  await until('the newest line is on the screen', () => inside(feed(page).getByText('Line number 60.')));
  for (const key of ['Home', 'End']) {
    await page.keyboard.press(key);
    await until(`the title is on the screen after ${key}`, () => inside(heading));
    await until(`the state is on the screen after ${key}`, () => inside(page.getByRole('main').getByText('running', { exact: true }).first()));
  }
  await page.goBack();
  await scene.call('end');
  await row(page, title).getByText('completed', { exact: true }).waitFor();
}

const feed = (page) => page.getByRole('feed', { name: 'Timeline' });
const whole = (page) => feed(page).getByText('End of the run').waitFor();

/** Each recorded run has a timeline to its end, without a fault of accessibility, in both themes. */
export async function timelines(scene) {
  const page = await signedIn(scene, '/', { offline: true, viewport: { width: 1280, height: 2000 } }); // one run is not there
  for (const theme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme: theme });
    for (const [title, id] of Object.entries(scene.runs)) {
      if (theme === 'light' && !scene.light.includes(title)) continue;
      await page.goto(`/runs/${id}`);
      await whole(page);
      await page.getByRole('heading', { level: 1, name: title }).waitFor();
      await accessible(scene, page, `${title}, ${theme}`);
      await fits(page, title);
      if (title === 'Fail for a reason') {
        await page.getByRole('status').getByText('Start a new thread, with a smaller task').waitFor();
        same('words of the contract', await page.getByText('redacted').count(), 0);
        await page.screenshot({ path: `${scene.shots}/failed-${theme}.png`, clip: { x: 0, y: 0, width: 1280, height: 900 } });
      }
    }
    await page.screenshot({ path: `${scene.shots}/run-${theme}.png` });
  }
  // What a command was and printed is with its call.
  await page.goto(`/runs/${scene.runs['List the files']}`);
  await whole(page);
  const call = feed(page).getByRole('button', { name: /Command/ }).first();
  if (await call.getAttribute('aria-expanded') !== 'true') await call.click();
  await feed(page).getByText('on-stderr').last().waitFor(); // of its output
  // A link to an event shows that event.
  const link = feed(page).getByRole('link', { name: /Link to the event/ }).nth(2);
  await page.goto(await link.getAttribute('href'));
  await whole(page);
  await page.getByText('There is no such run').waitFor({ state: 'detached' });
  // Keys: the first event, the changes, back to the overview.
  await page.keyboard.press('j');
  await until('an event has the focus', () => page.evaluate(() => document.activeElement?.tagName === 'ARTICLE'));
  await page.keyboard.press('d');
  await page.getByRole('heading', { name: 'No changes are known' }).waitFor();
  await page.keyboard.press('u');
  await row(page, 'List the files').waitFor();
  // What is not there has a page, too.
  for (const [path, heading] of [['/runs/T-local-0000000000000', 'There is no such run'], ['/runs/a%20b', 'There is no such page']]) {
    await page.goto(path);
    await page.getByRole('heading', { name: heading }).waitFor();
    await accessible(scene, page, path);
  }
}

/** Two runs side by side, and what can be saved. */
export async function more(scene) {
  const [left, right] = [scene.runs['Plan the work'], scene.runs['Use tools']];
  const page = await signedIn(scene, `/runs/${left}/with/${right}`, { viewport: { width: 1600, height: 1000 }, acceptDownloads: true });
  await until('two timelines', async () => (await page.getByText('End of the run').count()) === 2 || await page.getByRole('feed').count());
  await accessible(scene, page, 'side by side');
  await page.screenshot({ path: `${scene.shots}/side-by-side.png` });
  await page.goto(`/runs/${left}`);
  await page.getByRole('button', { name: 'More about this run' }).click();
  await accessible(scene, page, 'menu of a run');
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: /JSONL/ }).click();
  const lines = (await (await saved).createReadStream()).setEncoding('utf8');
  let text = '';
  for await (const part of lines) text += part;
  const events = text.trim().split('\n').map((line) => JSON.parse(line));
  same('the saved events end', events.at(-1).kind, 'completion');
}

/** A task is submitted, followed and cancelled. */
export async function task(scene) {
  const page = await signedIn(scene, '/', { offline: true }); // one request is refused
  await page.keyboard.press('n');
  const dialog = page.getByRole('dialog', { name: 'New task' });
  await dialog.waitFor();
  await accessible(scene, page, 'new task');
  await page.screenshot({ path: `${scene.shots}/new-task.png` });
  await dialog.getByRole('button', { name: 'Queue the task' }).click();
  await until('the mistake is shown', async () => (await dialog.getByRole('alert').count()) > 0);
  await dialog.getByLabel('What is to be done').fill('Count the files.');
  await dialog.getByRole('combobox', { name: 'Directory' }).fill('/');
  await dialog.getByLabel('Title', { exact: true }).fill('A task of the page');
  await dialog.getByRole('button', { name: 'Queue the task' }).click();
  await dialog.getByText(scene.lab).waitFor(); // the directories that are allowed
  await dialog.getByRole('combobox', { name: 'Directory' }).fill(scene.lab);
  await dialog.getByRole('radio', { name: /Write in the directory/ }).check();
  await dialog.getByRole('checkbox', { name: 'Yes, it may change files' }).check();
  await dialog.getByRole('button', { name: 'Queue the task' }).click();
  await feed(page).getByText('I am at it.').waitFor();
  await page.getByRole('heading', { level: 1, name: 'A task of the page' }).waitFor();
  await accessible(scene, page, 'a run that works');
  await page.screenshot({ path: `${scene.shots}/live.png` });
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  const sure = page.getByRole('dialog', { name: 'End this run?' });
  await accessible(scene, page, 'cancel');
  await sure.getByRole('button', { name: 'Keep it' }).click();
  await until('the dialog is closed', async () => (await page.getByRole('dialog').count()) === 0);
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await sure.getByLabel('Reason').fill('Enough.');
  await sure.getByRole('button', { name: 'End the run' }).click();
  await whole(page);
  await page.goto('/');
  await row(page, 'A task of the page').getByText('cancelled', { exact: true }).waitFor();
  // It continues with its mode, and runs again as it was; a run that linesman did not start says why it does not.
  await row(page, 'A task of the page').getByRole('link', { name: 'A task of the page' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
  const next = page.getByRole('dialog', { name: 'Continue the thread' });
  await next.getByText('The run had: Write in the directory.').waitFor();
  same('the mode', await next.getByLabel('What it may do').inputValue(), 'workspace-write');
  await next.getByRole('button', { name: 'Continue as a copy' }).waitFor();
  await accessible(scene, page, 'continue');
  // What is typed is there again; a press on the dialog's own scrollbar does not close it, one beside it does.
  await next.getByLabel('What is to be done next').fill('Count the directories.');
  const pressAt = (dx) => next.evaluate((d, dx) => {
    const { right, top } = d.getBoundingClientRect();
    d.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, clientX: right + dx, clientY: top + 20 }));
  }, dx);
  await pressAt(-2);
  same('the dialog is open', await next.count(), 1);
  await pressAt(2);
  await until('the dialog is closed', async () => (await page.getByRole('dialog').count()) === 0);
  await page.keyboard.press('u');
  await row(page, 'A task of the page').getByRole('link', { name: 'A task of the page' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
  same('what was typed', await next.getByLabel('What is to be done next').inputValue(), 'Count the directories.');
  await next.getByRole('button', { name: 'Close', exact: true }).last().click();
  await page.getByRole('button', { name: 'Run again' }).click();
  await dialog.waitFor();
  same('the task again', [await dialog.getByLabel('What is to be done').inputValue(), await dialog.getByRole('combobox', { name: 'Directory' }).inputValue(), await dialog.getByRole('radio', { name: /Write in the directory/ }).isChecked()],
    ['Count the files.', scene.lab, true]);
  await page.keyboard.press('Escape');
  await page.goto(`/runs/${scene.runs['Use tools']}`);
  await whole(page);
  await page.getByRole('button', { name: 'Run again' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('It cannot be run again: linesman did not start its agent').waitFor();
}

/** Lines that the timeline shows, in order: all of them are on the screen. */
const shownLines = (page) => feed(page).evaluate((box) => [...box.querySelectorAll('article')].map((a) => /Line number (\d+)\./.exec(a.textContent)?.[1]).filter(Boolean).map(Number));

/** `up` is killed and started again under an open page: nothing is missing or shown twice. */
export async function restart(scene) {
  const overview = await signedIn(scene, '/', { offline: true });
  await live(overview);
  const title = await scene.call('begin', { lines: scene.lines });
  await row(overview, title).getByText('running', { exact: true }).waitFor();
  const page = await signedIn(scene, new URL(await row(overview, title).getByRole('link', { name: title }).getAttribute('href'), overview.url()).pathname,
    { offline: true, viewport: { width: 1280, height: 12000 } });
  for (let round = 1; round <= 2; round++) {
    await feed(page).getByText(`Line number ${round * 20}.`).waitFor();
    await scene.call('kill');
    await overview.getByRole('banner').getByText('Disconnected').waitFor();
    await overview.screenshot({ path: `${scene.shots}/disconnected.png` });
    await accessible(scene, overview, 'disconnected');
    await scene.call('start');
    await live(overview);
  }
  await scene.call('end');
  await whole(page);
  const want = Array.from({ length: scene.lines }, (_, i) => i + 1);
  await until('all lines', async () => (await shownLines(page)).length >= scene.lines || await shownLines(page));
  same('the lines on the screen', await shownLines(page), want);
  await row(overview, title).getByText('completed', { exact: true }).waitFor();
  same('the rows of the run', await row(overview, title).count(), 1);
}

/** Tabs of one browser: those in the background take no connection, and none is left when a run is removed, or when one signs out. */
export async function tabs(scene) {
  const first = await signedIn(scene, '/', { offline: true }); // one run is removed
  await live(first);
  const context = first.context();
  const background = [];
  for (let i = 0; i < 6; i++) { // as many as a browser has connections to a server
    const page = await context.newPage();
    await page.addInitScript(() => {
      let shown = 'hidden';
      Object.defineProperty(document, 'visibilityState', { get: () => shown });
      window.show_ = () => {
        shown = 'visible';
        document.dispatchEvent(new Event('visibilitychange'));
      };
    });
    await page.goto(`/runs/${scene.id}`);
    await page.getByRole('heading', { level: 1, name: scene.title }).waitFor();
    background.push(page);
  }
  const [shown] = background;
  await shown.evaluate(() => window.show_());
  await whole(shown);
  await scene.call('forget', { run: scene.id });
  await shown.getByRole('heading', { name: 'There is no such run' }).waitFor();
  same('what is left of it', await feed(shown).count(), 0);
  await row(first, scene.title).waitFor({ state: 'detached' });
  // Windows that all show what goes on: their streams take turns, and requests get through.
  const title = await scene.call('begin', { lines: 3 });
  const href = await row(first, title).getByRole('link', { name: title }).getAttribute('href');
  const windows = [];
  for (let i = 0; i < 4; i++) {
    const page = await context.newPage();
    await page.goto(href);
    await feed(page).getByText('Line number 3.').waitFor();
    windows.push(page);
  }
  await first.reload();
  await row(first, title).waitFor();
  await scene.call('end');
  for (const page of windows) await whole(page);
  await shown.getByRole('button', { name: 'Menu' }).click();
  await context.setOffline(true);
  await shown.getByRole('button', { name: 'Sign out' }).click();
  await shown.getByText('You are still signed in: linesman does not answer').waitFor();
  await context.setOffline(false);
  await shown.getByRole('button', { name: 'Menu' }).click();
  await shown.getByRole('button', { name: 'Sign out' }).click();
  for (const page of [first, ...background, ...windows]) await page.getByRole('heading', { name: 'Sign in to linesman' }).waitFor();
}

/** What agents write is text: nothing of it runs, loads, or becomes an element. */
export async function hostile(scene) {
  const page = await signedIn(scene, '/', { viewport: { width: 1280, height: 3000 } });
  await page.getByRole('listitem').first().waitFor();
  const check = async (where) => {
    const found = await page.evaluate(() => [
      window.pwned,
      ...[...document.querySelectorAll('main :is(script, iframe, frame, object, embed, form, img, image, video, audio, source, style, link, base, meta, math, template, marquee, foreignObject, animate, set, use)')].map((e) => e.outerHTML.slice(0, 120)),
      ...[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes].filter((a) => /^on/i.test(a.name) || (/^(href|src|action|formaction|xlink:href|srcdoc|poster|background|data)$/i.test(a.name) && !/^(https?:\/\/|\/|#|data:image\/)/i.test(a.value))).map((a) => `${e.tagName} ${a.name}=${a.value.slice(0, 80)}`)),
      ...[...document.querySelectorAll('main a[href^="http"]')].filter((a) => a.origin !== location.origin && !/noopener.*noreferrer|noreferrer.*noopener/.test(a.rel)).map((a) => a.outerHTML.slice(0, 200)),
      document.title.includes('pwned') && document.title.length > 300 ? document.title : undefined,
    ].filter(Boolean));
    same(where, found, []);
  };
  await check('overview');
  let texts = '';
  for (const id of scene.hostile) {
    await page.goto(`/runs/${id}`);
    const box = feed(page);
    await box.getByRole('article').first().waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('g');
    let seen = 0;
    for (let last = ''; ; seen++) { // screen by screen, each call opened
      await box.evaluate((feed) => {
        for (const button of feed.querySelectorAll('button[aria-expanded=false]')) button.click();
      });
      await check(`${id}, screen ${seen}`);
      texts += await box.textContent();
      const at = await page.evaluate(() => {
        const s = [document.scrollingElement, ...document.querySelectorAll('main, main *')].find((e) => e.scrollHeight > e.clientHeight + 1 && ['auto', 'scroll'].includes(getComputedStyle(e).overflowY) && e.querySelector('[role=feed]'));
        s?.scrollBy(0, s.clientHeight * 0.9);
        return String(s?.scrollTop ?? 0);
      });
      if (at === last || seen > 60) break;
      last = at;
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
    await page.screenshot({ path: `${scene.shots}/hostile.png`, clip: { x: 0, y: 0, width: 1280, height: 900 } });
  }
  // They were there, as text: in messages, commands, plans, errors.
  for (const part of ['<script>window.pwned=1</script>', '<img src=x onerror="window.pwned=1">', 'javascript:window.pwned=1']) same(`${part} as text`, texts.includes(part), true);
}

/** From a narrow phone to 4K nothing is cut off, in both themes. */
export async function sizes(scene) {
  const run = scene.runs['Run three commands at once'];
  for (const [name, viewport] of Object.entries({ phone: { width: 320, height: 640 }, tablet: { width: 768, height: 1024 }, '4k': { width: 3840, height: 2160 } })) {
    for (const theme of ['dark', 'light']) {
      if (name === 'tablet' && theme === 'light') continue;
      const page = await signedIn(scene, '/', { viewport, theme, ...(name === 'phone' && { hasTouch: true, isMobile: true }) });
      await row(page, 'List the files').waitFor();
      await fits(page, `overview, ${name}`);
      if (name !== 'tablet') await accessible(scene, page, `overview, ${name}, ${theme}`);
      await row(page, 'Fail for a reason').scrollIntoViewIfNeeded();
      await page.screenshot({ path: `${scene.shots}/overview-${name}-${theme}.png` });
      await page.getByRole('button', { name: 'New task' }).click();
      await page.getByRole('dialog', { name: 'New task' }).waitFor();
      await fits(page, `new task, ${name}`);
      await page.goto(`/runs/${run}`);
      await whole(page);
      await fits(page, `run, ${name}`);
      if (name === 'phone') await accessible(scene, page, `run, ${name}, ${theme}`);
      await page.screenshot({ path: `${scene.shots}/run-${name}-${theme}.png` });
      await page.goto(`/runs/${scene.runs['Fail for a reason']}`);
      await whole(page);
      await fits(page, `failed run, ${name}`);
      await page.screenshot({ path: `${scene.shots}/failed-${name}-${theme}.png` });
      await page.goto(`/runs/${run}/with/${scene.runs['Plan the work']}`);
      await page.getByText('End of the run').first().waitFor();
      await fits(page, `side by side, ${name}`);
    }
  }
}

/** Ten thousand runs: the newest are loaded first, and only those on the screen are elements. The times are for people to read. */
export async function many(scene) {
  const page = await signedIn(scene);
  const cdp = await page.context().newCDPSession(page);
  let loaded = 0; // bytes, without those of the view of a run, which is loaded when nothing else is to be done
  const later = new Set();
  cdp.on('Network.requestWillBeSent', (e) => e.request.url.endsWith('/run.js') && later.add(e.requestId));
  cdp.on('Network.dataReceived', (e) => later.has(e.requestId) || (loaded += e.dataLength));
  await cdp.send('Network.enable');
  const size = () => page.evaluate(() => Math.max(0, ...[...document.querySelectorAll('[aria-setsize]')].map((e) => Number(e.getAttribute('aria-setsize')))));
  const begun = Date.now();
  await page.reload();
  const newest = async () => Number(/\d+/.exec((await page.getByText(/^The newest \d+ runs\./).textContent()) ?? '')?.[0]);
  await until('the newest runs', async () => (await newest()) >= 90 || newest(), 60_000);
  const first = loaded;
  if (first === 0 || first > 300_000) throw new Error(`${first} bytes for the first screen`);
  const ready = Date.now() - begun;
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  if (nodes > 3000) throw new Error(`${nodes} elements for 10,000 runs`);
  await page.evaluate(() => {
    window.frames_ = [];
    let last = performance.now();
    requestAnimationFrame(function each(now) {
      window.frames_.push(now - last);
      last = now;
      requestAnimationFrame(each);
    });
  });
  await page.mouse.move(640, 500);
  for (let i = 0; i < 60; i++) await page.mouse.wheel(0, 700);
  await until('older runs, at the end of the list', async () => (await size()) >= 200 || size());
  await page.keyboard.press('End');
  await page.keyboard.press('Home');
  // Tab reaches the list wherever it was scrolled to: the row of the keyboard is not there any more.
  for (let i = 0; i < 20; i++) await page.mouse.wheel(0, 700);
  await until('the first row is away', async () => (await page.getByRole('listitem').first().getAttribute('aria-posinset')) !== '1');
  same('the rows that Tab reaches', await page.locator('[role=listitem] a[tabindex="0"]').count(), 1);
  await page.keyboard.press('Home');
  const frames = (await page.evaluate(() => window.frames_)).sort((a, b) => a - b);
  const search = page.getByRole('searchbox', { name: 'Search runs' });
  const [asked, before] = [Date.now(), loaded];
  for (const [words, title] of [['number 4321', 'Recorded run number 4321'], ['no such words', ''], ['label:ticket=1234 dir:/srv', 'Recorded run number 1234'], ['state:failed number', '']]) {
    await search.fill(words);
    if (title) await page.getByRole('link', { name: title, exact: true }).waitFor();
    else await page.getByText('No matching runs').waitFor();
  }
  const [found, searched] = [Date.now() - asked, loaded - before];
  if (searched > 600_000) throw new Error(`${searched} bytes for four searches`);
  await search.fill('');
  await page.getByRole('group', { name: 'Sort' }).getByRole('button', { name: 'Tokens' }).click();
  await until('all runs are listed, for their order', async () => (await size()) >= 10_000 || size());
  await page.screenshot({ path: `${scene.shots}/many.png` });
  const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  const at = (q) => Math.round(frames[Math.floor((frames.length - 1) * q)] * 10) / 10;
  return { first, loaded, ready, nodes, frames: frames.length, p50: at(0.5), p95: at(0.95), max: at(1), search: found, heapMB: Math.round(heap / 1e5) / 10 };
}

/** A run with hundreds of events a second, shown for long: how much memory and how many elements that takes. */
export async function soak(scene) {
  const overview = await signedIn(scene);
  const title = await scene.call('pour');
  const href = await row(overview, title).getByRole('link', { name: title }).getAttribute('href');
  const page = await signedIn(scene, href);
  const sessions = await Promise.all([overview, page].map((p) => p.context().newCDPSession(p)));
  const samples = [];
  for (const begun = Date.now(); Date.now() - begun < scene.seconds * 1000;) {
    await new Promise((done) => setTimeout(done, 10_000));
    const sample = { second: Math.round((Date.now() - begun) / 1000) };
    for (const [i, cdp] of sessions.entries()) {
      await cdp.send('HeapProfiler.collectGarbage');
      const { usedSize } = await cdp.send('Runtime.getHeapUsage');
      const { nodes } = await cdp.send('Memory.getDOMCounters');
      Object.assign(sample, { [`${['overview', 'run'][i]}MB`]: Math.round(usedSize / 1e5) / 10, [`${['overview', 'run'][i]}Nodes`]: nodes });
    }
    sample.line = Math.max(0, ...await shownLines(page));
    samples.push(sample);
  }
  await scene.call('stop');
  await whole(page);
  return samples;
}
