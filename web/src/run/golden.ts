// The golden files of the Go packages, by their paths. The bundle of test/engine has another module in place of this.

const files = import.meta.glob<string>(['../../../agent/*/testdata/golden/*.golden', '../../../agent/*/testdata/meaning.golden'], { query: '?raw', import: 'default' });

export const golden = async (path: string): Promise<string> => (await files[path]?.()) ?? '';
