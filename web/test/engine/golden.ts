// In the bundle in place of src/run/golden.ts: recordings are read when a test asks for them, so that a
// new one needs no new bundle.

export const golden = (path: string): Promise<string> => Promise.resolve(host.read(`src/run/${path}`));
