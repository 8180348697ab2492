import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectNode } from './detect.ts'

const json = (value: unknown): string => JSON.stringify(value, null, 2)
const BERRY = (format: number): string => `# yarn\n\n__metadata:\n  version: ${format}\n  cacheKey: 10\n`

describe('what the project’s own scripts do to an install', () => {
  const LOCK = json({
    packages: {
      '': {},
      'node_modules/esbuild': { hasInstallScript: true },
      'node_modules/@a/b/node_modules/bcrypt': { hasInstallScript: true },
      'node_modules/fsevents': { hasInstallScript: true, os: ['darwin'] },
      'packages/own': { hasInstallScript: true },
      'node_modules/$(reboot)': { hasInstallScript: true },
    },
  })
  const scripted = (scripts: Record<string, string>, more: object = {}): string =>
    json({ name: 'shop', scripts, dependencies: { ms: '2' }, ...more })

  testDetector(detectNode, [
    ...[
      'husky',
      'husky install',
      'npx husky || true',
      'is-ci || husky install',
      'patch-package',
      'svelte-kit sync || echo',
      'npx only-allow pnpm',
    ].map((script) => ({
      name: `is nothing, for ${script}`,
      files: { 'package.json': scripted({ prepare: script }), 'package-lock.json': LOCK },
      finds: [{ setup: 'npm ci' }],
    })),
    ...[
      'tsc',
      'npm run build',
      'husky && tsc',
      'nuxt prepare',
      'lefthook install',
      'node scripts/build.js',
      'node scripts/gone.js',
      'npm run prepare',
    ].map((script) => ({
      name: `is to be left out, for ${script}`,
      files: {
        'package.json': scripted({ prepare: script, build: 'rollup -c' }),
        'package-lock.json': LOCK,
        'scripts/build.js': '',
      },
      finds: [
        {
          setup: 'npm ci --ignore-scripts && npm rebuild bcrypt esbuild',
          notes: [/these scripts are skipped: prepare of package\.json/],
        },
      ],
    })),
    {
      name: 'is to be given what it names, and what that imports',
      files: {
        'package.json': scripted({ postinstall: 'node scripts/post.js' }),
        'package-lock.json': LOCK,
        'scripts/post.js': "const a = require('./lib/a')\nimport('./b.mjs')\n",
        'scripts/lib/a.js': "require('../post.js')",
        'scripts/b.mjs': '',
        'scripts/c.js': '',
      },
      finds: [
        {
          setup: 'npm ci',
          inputs: [
            'package-lock.json',
            'package.json',
            'scripts/b.mjs',
            'scripts/lib/a.js',
            'scripts/post.js',
          ],
        },
      ],
    },
    {
      name: 'is to be run by itself where it can, and others cannot',
      files: {
        'package.json': scripted({ postinstall: 'patch-package', prepare: 'tsc' }),
        'package-lock.json': json({ packages: {} }),
        'patches/ms+2.patch': '',
      },
      finds: [
        {
          setup: 'npm ci --ignore-scripts && npm run postinstall',
          inputs: ['package-lock.json', 'package.json', 'patches/ms+2.patch'],
        },
      ],
    },
    {
      name: 'counts for members as well',
      files: {
        'package.json': json({ workspaces: ['a'], dependencies: { esbuild: '1' } }),
        'yarn.lock': 'esbuild@1:\n',
        'a/package.json': '{"name":"a","scripts":{"prepare":"tsc -b"}}',
      },
      finds: [{ setup: 'yarn install --frozen-lockfile --ignore-scripts && npm rebuild esbuild' }],
    },
    {
      name: 'is told to later Yarns in another way, which run fewer of them',
      files: { 'package.json': scripted({ postinstall: 'tsc', prepare: 'tsc' }), 'yarn.lock': BERRY(8) },
      finds: [{ setup: 'yarn install --immutable --mode=skip-build' }],
    },
    {
      name: 'is nothing to later Yarns, for prepare',
      files: { 'package.json': scripted({ prepare: 'tsc' }), 'yarn.lock': BERRY(8) },
      finds: [{ setup: 'yarn install --immutable' }],
    },
    {
      name: 'is told to pnpm with what may be built',
      files: {
        'package.json': scripted(
          { prepare: 'tsc' },
          { pnpm: { onlyBuiltDependencies: ['sharp', '-x', 'a;b'] } },
        ),
        'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
      },
      finds: [{ setup: 'pnpm install --frozen-lockfile --ignore-scripts && pnpm rebuild sharp' }],
    },
    {
      name: 'does not keep npm from a flag that the workflow uses',
      files: {
        'package.json': scripted({}),
        'package-lock.json': LOCK,
        '.github/workflows/ci.yml': 'jobs:\n  a:\n    steps:\n      - run: npm ci --legacy-peer-deps\n',
      },
      finds: [{ setup: 'npm ci --legacy-peer-deps' }],
    },
    {
      name: 'is given the schema that Prisma generates from',
      files: {
        'package.json': scripted(
          { postinstall: 'prisma generate' },
          { dependencies: { '@prisma/client': '6' } },
        ),
        'package-lock.json': '{}',
        'prisma/schema.prisma': '',
      },
      finds: [{ setup: 'npm ci', inputs: ['package-lock.json', 'package.json', 'prisma/schema.prisma'] }],
    },
  ])

  test('install scripts of dependencies come from npm’s record if the lockfile does not tell', () => {
    const tree = memoryTree({
      'package.json': scripted({ prepare: 'tsc' }),
      'package-lock.json': '{"lockfileVersion":1}',
    })
    const run = detectNode(tree)[0]?.commands.setup?.run ?? ''
    assert.match(
      run,
      /^npm ci --ignore-scripts && built=\$\(node -p '.*'\) && printf .* \| xargs -r npm rebuild$/,
    )
  })
})
