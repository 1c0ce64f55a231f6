// The bundle of all unit tests, for an engine that has no more than the language: `make web` builds
// it, and web/units_test.go runs it. Each test file is loaded by its name, and runs alone in its engine.

import { platform } from './platform';
import { collect } from './vitest';

const files = import.meta.glob(['/src/**/*.test.ts', '/test/*.test.ts']);

Object.assign(globalThis, platform, {
  units: {
    sources: __SOURCES__,
    files: Object.keys(files).map((path) => path.slice(1)),
    load: (file: string) => collect(file, files[`/${file}`]!),
  },
});
