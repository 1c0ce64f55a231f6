import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Plugin } from 'vite';

/** Writes the licences of the packages whose code is in the output to assets/licenses.txt. */
export function licenses(): Plugin {
  return {
    name: 'licenses',
    generateBundle(_, bundle) {
      const dirs = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue;
        for (const id of chunk.moduleIds) {
          const [dir] = /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(id) ?? [];
          if (dir) dirs.add(dir);
        }
      }
      const texts = [...dirs].map((dir) => {
        const { name, version, license } = JSON.parse(readFileSync(`${dir}/package.json`, 'utf8')) as Record<string, string>;
        const file = readdirSync(dir).find((each) => /^licen[cs]e/i.test(each) && existsSync(`${dir}/${each}`));
        return `${name} ${version} (${license})\n\n${file ? readFileSync(`${dir}/${file}`, 'utf8').trim() : ''}\n`;
      });
      this.emitFile({ type: 'asset', fileName: 'assets/licenses.txt', source: texts.sort().join(`\n${'-'.repeat(80)}\n\n`) });
    },
  };
}
