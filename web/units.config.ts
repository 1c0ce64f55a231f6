import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { defineConfig } from 'vite';

// Builds testdata/units.js: the unit tests with all that they import in one file, for an engine without modules, Node and
// browser; see test/engine/units.ts. Its packages are those of the page, whose licences are in dist/assets/licenses.txt.

// What the page and the bundle are built from. web/units_test.go has the same list and hash, to find a bundle that is out of date.
const sources = ['index.html', 'licenses.ts', 'package-lock.json', 'package.json', 'public', 'src', 'test', 'tsconfig.json', 'units.config.ts', 'vite.config.ts'];

function files(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).filter((name) => name !== '__snapshots__').flatMap((name) => files(`${path}/${name}`));
}

const sha256 = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

const hash = (): string => sha256(sources.flatMap(files).map((path) => `${path} ${sha256(readFileSync(path))}\n`).sort().join(''));

export default defineConfig({
  mode: 'units',
  define: { __SOURCES__: JSON.stringify(hash()) },
  publicDir: false,
  resolve: {
    alias: [
      { find: /^vitest$/, replacement: '/test/engine/vitest.ts' },
      { find: /^\.\/golden$/, replacement: '/test/engine/golden.ts' },
    ],
  },
  build: {
    target: 'es2022',
    outDir: 'testdata',
    emptyOutDir: true,
    ssr: 'test/engine/units.ts',
    minify: true,
    rollupOptions: { output: { format: 'iife', entryFileNames: 'units.js', codeSplitting: false } },
  },
  ssr: { noExternal: true, target: 'webworker' },
});
