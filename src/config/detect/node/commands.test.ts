import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectNode } from './detect.ts'

const json = (value: unknown): string => JSON.stringify(value, null, 2)

describe('what people do with a package', () => {
  testDetector(detectNode, [
    {
      name: 'is in its scripts, and run by its manager',
      files: {
        'package.json': json({
          scripts: {
            dev: 'vite',
            test: 'vitest run',
            lint: 'eslint .',
            build: 'vite build',
            start: 'node .',
          },
          devDependencies: { vite: '6', vitest: '3' },
        }),
        'pnpm-lock.yaml': '',
      },
      finds: [
        {
          dev: 'pnpm run dev',
          test: 'pnpm test',
          lint: 'pnpm run lint',
          build: 'pnpm run build',
          start: 'pnpm start',
          ports: [5173],
        },
      ],
    },
    {
      name: 'is not what npm writes into every new package',
      files: { 'package.json': json({ scripts: { test: 'echo "Error: no test specified" && exit 1' } }) },
      finds: [{ test: undefined }],
    },
    {
      name: 'may go by other names',
      files: {
        'package.json': json({ scripts: { 'start:dev': 'nest start', 'test:unit': 'jest', compile: 'tsc' } }),
      },
      finds: [{ dev: 'npm run start:dev', test: 'npm run test:unit', build: 'npm run compile' }],
    },
    {
      name: 'is to be told that nobody waits for changes',
      files: { 'package.json': json({ scripts: { test: 'vitest', start: 'react-scripts start' } }) },
      finds: [{ test: 'CI=true npm test', dev: 'npm start', start: 'npm start' }],
    },
    ...(
      [
        ['vitest', 'npx vitest run'],
        ['jest', 'npx jest'],
        ['mocha', 'npx mocha'],
        ['ava', 'npx ava'],
      ] as const
    ).map(([dependency, run]) => ({
      name: `is ${run} where there is no script but ${dependency}`,
      files: { 'package.json': json({ devDependencies: { [dependency]: '1' } }) },
      finds: [{ test: run }],
    })),
    {
      name: 'is Node’s own runner where the tests are written for it',
      files: { 'package.json': '{}', 'src/a.test.mjs': "import test from 'node:test'\n" },
      finds: [{ test: 'node --test' }],
    },
    {
      name: 'is not guessed from tests that say nothing',
      files: { 'package.json': '{}', 'src/a.test.js': 'it()' },
      finds: [{ test: undefined }],
    },
    {
      name: 'starts the main file, where that serves something',
      files: { 'package.json': '{"main":"./lib/app.js"}', 'lib/app.js': 'http.createServer(x).listen(80)' },
      finds: [{ start: 'node lib/app.js' }],
    },
    {
      name: 'does not start a library',
      files: { 'package.json': '{"main":"./index.js"}', 'index.js': 'module.exports = 1' },
      finds: [{ start: undefined }],
    },
    {
      name: 'is linted by what is configured',
      files: { 'package.json': json({ devDependencies: { eslint: '9' } }), 'eslint.config.mjs': '' },
      finds: [{ lint: 'npx eslint .' }],
    },
    {
      name: 'is nothing that a name could smuggle in',
      files: {
        'package.json': json({ workspaces: ['a'] }),
        'a/package.json': json({ name: 'x; reboot', scripts: { test: 'jest' } }),
      },
      finds: [{ test: "npm run test -w 'x; reboot'" }],
    },
  ])
})

describe('ports', () => {
  const served = (script: string, dependency: string): string =>
    json({ scripts: { dev: script }, dependencies: { [dependency]: '1' } })
  testDetector(
    detectNode,
    (
      [
        ['next dev', 'next', 3000],
        ['next dev -p 4000', 'next', 4000],
        ['vite --port=8080', 'vite', 8080],
        ['cross-env PORT=3333 node .', 'express', 3333],
        ['astro dev', 'astro', 4321],
        ['nuxt dev', 'nuxt', 3000],
        ['ng serve', '@angular/core', 4200],
        ['gatsby develop', 'gatsby', 8000],
        ['react-router dev', '@react-router/dev', 5173],
        ['vite dev', '@sveltejs/kit', 5173],
        ['react-scripts start', 'react-scripts', 3000],
        ['storybook dev', 'vite', undefined],
        ['vite --port 99999', 'vite', undefined],
      ] as const
    ).map(([script, dependency, port]) => ({
      name: `of ${script}: ${port ?? 'none'}`,
      files: { 'package.json': served(script, dependency) },
      finds: [{ ports: port === undefined ? [] : [port] }],
    })),
  )
  testDetector(detectNode, [
    {
      name: 'are read in the settings of Vite',
      files: {
        'package.json': served('vite', 'vite'),
        'vite.config.ts': 'export default {\n  server: {\n    host: true,\n    port: 3001,\n  },\n}\n',
      },
      finds: [{ ports: [3001] }],
    },
  ])
})
