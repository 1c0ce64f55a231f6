/** What web/units_test.go gives to the bundle. */
declare const host: {
  /** Reads a file of web, as text. */
  read(path: string): string;
  /** Calls f once all promises have settled that can. */
  later(f: () => void): void;
  /** Sets the time of Date, in ms since 1970. */
  setTime(ms: number): void;
};

/** A hash of all files that the page and the bundle are built from, by units.config.ts. */
declare const __SOURCES__: string;
