/// <reference types="vitest/config" />
import { defineConfig, loadEnv } from 'vite';
import { licenses } from './licenses.ts';

// The output is checked in and embedded, and must be the same on every machine: names without
// hashes (the server sends an ETag), no source maps, and nothing inline, so that the page's
// Content-Security-Policy can forbid inline scripts and styles.
const up = loadEnv('', '.', 'LINESMAN')['LINESMAN'] ?? 'http://127.0.0.1:8422';

export default defineConfig({
  base: '/',
  plugins: [licenses()],
  build: {
    target: ['chrome123', 'firefox121', 'safari17.5'], // light-dark() in CSS
    outDir: 'dist',
    emptyOutDir: true,
    sourcemap: false,
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    rollupOptions: {
      input: { app: 'index.html' },
      output: {
        entryFileNames: 'assets/app.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
      },
    },
  },
  server: {
    // `LINESMAN=http://127.0.0.1:8422 npm run dev` serves the page with the data of a running `up`.
    proxy: Object.fromEntries(
      ['/v1', '/session', '/signin'].map((path) => [path, { target: up, changeOrigin: true, headers: { origin: up } }]),
    ),
  },
  test: { include: ['test/**/*.test.ts', 'src/**/*.test.ts'], environment: 'node' },
});
