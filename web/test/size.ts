// Sizes of inputs that take long: as they are in vitest, and a fiftieth in the bundle of test/engine, whose engine is slower
// by that much. There, such a test shows that the results are right, and vitest shows that they are fast.

export const size = (n: number): number => (import.meta.env.MODE === 'units' ? Math.ceil(n / 50) : n);
