import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

const dist = join(import.meta.dirname, 'dist');
/** The one committed file of dist: what a broker shows that was built without the app. */
const placeholder = 'placeholder.html';

/** Empties dist but for the placeholder, and lays a compressed copy beside every file that the broker may send compressed. */
function distFiles(): Plugin {
  return {
    name: 'dist-files',
    apply: 'build',
    buildStart() {
      mkdirSync(dist, { recursive: true });
      for (const name of readdirSync(dist)) if (name !== placeholder) rmSync(join(dist, name), { recursive: true });
    },
    closeBundle() {
      for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
        if (!/\.(js|css|html|svg)$/.test(name) || name === placeholder) continue;
        writeFileSync(join(dist, `${name}.gz`), gzipSync(readFileSync(join(dist, name)), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  // Relative, so that the app works under any path prefix.
  base: './',
  plugins: [svelte(), distFiles()],
  build: {
    target: 'es2022',
    emptyOutDir: false,
    // A data: URL would need a wider content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  // `npm run dev` shows the app from its sources, with the API of a broker that runs here.
  server: { host: '127.0.0.1', proxy: { '/api': process.env.WARREN_HTTP ?? 'http://127.0.0.1:15672' } },
});
