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
  await accessible(other, 'sign-in');
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
  await accessible(page, 'overview');
  const search = page.getByRole('searchbox', { name: 'Search runs' });
  await page.keyboard.press('/');
  await page.keyboard.type(scene.titles[0]);
  await until('one run is found', async () => (await page.getByRole('listitem').count()) === 1 || await page.getByRole('listitem').count());
  same('the address of a search', new URL(page.url()).searchParams.get('q'), scene.titles[0]);
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await until('the run is open', () => new URL(page.url()).pathname.startsWith('/runs/'));
  await page.goBack();
  same('the search after going back', await search.inputValue(), scene.titles[0]);
  await search.fill('no such run at all');
  await page.getByRole('button', { name: 'Show all runs' }).click();
  await row(page, scene.titles[0]).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await accessible(page, 'shortcuts');
  await page.keyboard.press('Escape');
  await until('the dialog is closed', async () => (await page.getByRole('dialog').count()) === 0);
}

/** A run appears when it starts, and its end is seen, without a reload. */
export async function liveRun(scene) {
  const page = await signedIn(scene);
  await live(page);
  const title = await scene.call('begin', { lines: 2 });
  await row(page, title).getByText('running', { exact: true }).waitFor();
  await scene.call('end');
  await row(page, title).getByText('completed', { exact: true }).waitFor();
}
