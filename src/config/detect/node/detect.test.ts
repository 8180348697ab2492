import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectNode } from './detect.ts'

const json = (value: unknown): string => JSON.stringify(value, null, 2)
/** A package whose scripts do nothing to an install. */
const PLAIN = json({ name: 'shop', scripts: { test: 'node --test' }, dependencies: { ms: '2.1.3' } })

describe('Node', () => {
  testDetector(detectNode, [
    { name: 'nothing is found where there is no package', files: { 'index.js': '' }, finds: [] },
    {
      name: 'a package is what package.json says',
      files: {
        'package.json': PLAIN,
        'package-lock.json': '{"lockfileVersion":3,"packages":{}}',
        '.npmrc': 'a=b',
      },
      finds: [
        {
          language: 'node',
          seen: 'package.json',
          manager: 'npm',
          beaten: [],
          tools: [],
          lockfile: 'package-lock.json',
          inputs: ['.npmrc', 'package-lock.json', 'package.json'],
          setup: 'npm ci',
          test: 'npm test',
          generated: ['node_modules'],
          presets: ['npm'],
          packages: [],
          members: undefined,
          variables: undefined,
        },
      ],
    },
    {
      name: 'a byte order mark and the line ends of Windows change nothing',
      files: {
        'package.json': `\uFEFF${PLAIN.replaceAll('\n', '\r\n')}`,
        '.nvmrc': '\uFEFFv22.1.0\r\n',
        'package-lock.json': '{}',
      },
      finds: [{ setup: 'npm ci', versions: ['v22.1.0 version file .nvmrc:1'], test: 'npm test' }],
    },
    {
      name: 'a package that is no JSON is found, and told to be malformed',
      files: { 'package.json': '{ "name": ' },
      finds: [{ manager: 'npm', notes: [/package\.json is malformed and was not used/] }],
    },
    {
      name: 'a package that depends on nothing needs nothing installed',
      files: { 'package.json': '{"scripts":{"test":"node --test"}}' },
      finds: [{ setup: undefined, test: 'npm test' }],
    },
    {
      name: 'a token that the settings take from a variable is told of',
      files: { 'package.json': PLAIN, '.npmrc': `//registry.example.com/:_authToken=\${NPM_TOKEN}\n` },
      finds: [{ notes: [/\.npmrc needs the variables NPM_TOKEN/] }],
    },
    {
      name: 'the root may be empty, while a package elsewhere has to have something in it',
      files: { 'package.json': '{}', 'lib/esm/package.json': '{"type":"module"}' },
      finds: [{ directory: '' }],
    },
  ])
})

describe('the version of Node', () => {
  testDetector(detectNode, [
    {
      name: 'is said in many places, of which each is told',
      files: {
        '.nvmrc': '# ours\nlts/iron\n',
        '.node-version': '20.11.0\n',
        '.npmrc': 'use-node-version=20.9.0\n',
        '.tool-versions': 'nodejs 20.10.0\n',
        'package.json': json({
          volta: { node: '20.8.0' },
          engines: { node: '>=18' },
          devEngines: { runtime: { name: 'node', version: '^20' } },
        }),
      },
      finds: [
        {
          versions: [
            'lts/iron version file .nvmrc:2',
            '20.11.0 version file .node-version:1',
            '20.8.0 version file package.json:3',
            '20.9.0 version file .npmrc:1',
            '20.10.0 version file .tool-versions:1',
            '>=18 range package.json:6',
            '^20 range package.json:11',
          ],
        },
      ],
    },
    {
      name: 'is inherited from the directory above',
      files: { '.nvmrc': '22', 'web/package.json': PLAIN, 'web/.nvmrc': '20' },
      finds: [{ directory: 'web', versions: ['20 version file web/.nvmrc:1', '22 version file .nvmrc:1'] }],
    },
    {
      name: 'is that of a member where the root says nothing',
      files: {
        'package.json': json({ workspaces: ['packages/*'] }),
        'packages/a/package.json': '{"name":"a","engines":{"node":">=20.10"}}',
      },
      finds: [{ versions: ['>=20.10 range packages/a/package.json:1'] }],
    },
    {
      name: 'is exact where the field for development is',
      files: { 'package.json': '{"devEngines":{"runtime":[{"name":"node","version":"22.1.0"}]}}' },
      finds: [{ versions: ['22.1.0 manifest package.json:1'] }],
    },
    {
      name: 'is nothing that could not be one',
      files: { '.nvmrc': '$(reboot)\n', 'package.json': json({ engines: { node: 'x'.repeat(200) } }) },
      finds: [{ versions: [] }],
    },
  ])
})

describe('workspaces', () => {
  testDetector(detectNode, [
    {
      name: 'of npm are one finding',
      files: {
        'package.json': json({ workspaces: ['packages/*', '!packages/old'] }),
        'package-lock.json': '{}',
        'packages/a/package.json': '{"name":"@shop/a","bin":{"a":"./bin/a.js"}}',
        'packages/a/bin/a.js': '#!/usr/bin/env -S node --no-warnings\nmain()\n',
        'packages/b/package.json': '{"name":"@shop/b","bin":"missing.js"}',
        'packages/old/package.json': '{"name":"old","scripts":{"test":"x"}}',
        'packages/a/node_modules/x/package.json': '{"name":"x","scripts":{"test":"x"}}',
      },
      finds: [
        {
          members: ['@shop/a', '@shop/b'],
          inputs: ['package-lock.json', 'package.json', 'packages/a/package.json', 'packages/b/package.json'],
          generated: ['node_modules', 'packages/a/node_modules', 'packages/b/node_modules'],
          stubs: { 'packages/a/bin/a.js': '#!/usr/bin/env -S node --no-warnings\n' },
        },
        { directory: 'packages/old' },
      ],
    },
    {
      name: 'of Yarn may stand in a table',
      files: {
        'package.json': json({ workspaces: { packages: ['{apps,libs}/**'] } }),
        'yarn.lock': '',
        'apps/web/ui/package.json': '{"name":"ui"}',
        'libs/x/package.json': '{"name":"x"}',
      },
      finds: [{ members: ['x', 'ui'] }],
    },
    {
      name: 'of pnpm are in a file of their own, exclusions and all',
      files: {
        'package.json': '{}',
        'pnpm-workspace.yaml': "packages:\n  - 'packages/**'\n  - '!**/test/**'\n",
        'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
        'packages/build/package.json': '{"name":"build"}',
        'packages/build/test/x/package.json': '{"name":"x"}',
      },
      finds: [
        {
          members: ['build'],
          inputs: ['package.json', 'packages/build/package.json', 'pnpm-lock.yaml', 'pnpm-workspace.yaml'],
        },
      ],
    },
    {
      name: 'that are malformed are told so',
      files: { 'package.json': PLAIN, 'pnpm-workspace.yaml': 'packages: [\n' },
      finds: [{ members: undefined, notes: [/pnpm-workspace\.yaml was not understood/] }],
    },
    {
      name: 'of Lerna from before package managers knew them are linked by it',
      files: {
        'package.json': json({ devDependencies: { lerna: '^4.0.0' } }),
        'package-lock.json': '{}',
        'lerna.json': '{}',
        'packages/a/package.json': '{"name":"a"}',
      },
      finds: [{ members: ['a'], setup: 'npm ci && npx lerna bootstrap' }],
    },
    {
      name: 'with Turborepo run its tasks',
      files: {
        'package.json': json({ workspaces: ['apps/*'], devDependencies: { turbo: '2' } }),
        'turbo.json': json({ tasks: { build: {}, test: {} } }),
        'apps/web/package.json': json({
          name: 'web',
          scripts: { dev: 'next dev', lint: 'eslint' },
          dependencies: { next: '15' },
        }),
      },
      finds: [
        {
          build: 'npx turbo run build',
          test: 'npx turbo run test',
          lint: 'npm run lint -w web',
          dev: 'npm run dev -w web',
          ports: [3000],
        },
      ],
    },
    {
      name: 'with Nx run its targets',
      files: {
        'package.json': json({ workspaces: ['libs/*'] }),
        'nx.json': json({ targetDefaults: { test: {} } }),
        'libs/a/package.json': '{"name":"a"}',
        'pnpm-lock.yaml': '',
      },
      finds: [{ test: 'pnpm exec nx run-many -t test' }],
    },
    {
      name: 'whose root has no scripts run those of the members',
      files: {
        'package.json': '{}',
        'pnpm-workspace.yaml': 'packages: [a, b]\n',
        'a/package.json': '{"name":"a","scripts":{"test":"jest","dev":"vite"}}',
        'b/package.json': '{"name":"b","scripts":{"test":"jest","dev":"vite"}}',
        'pnpm-lock.yaml': '',
      },
      finds: [{ test: 'pnpm -r --if-present run test', dev: undefined }],
    },
  ])
})

describe('packages beside one another', () => {
  testDetector(detectNode, [
    {
      name: 'are findings of their own',
      files: {
        'package.json': PLAIN,
        'client/package.json': PLAIN,
        'client/yarn.lock': '',
        'server/package.json': PLAIN,
      },
      finds: [
        { directory: '' },
        { directory: 'client', manager: 'yarn', generated: ['client/node_modules'] },
        { directory: 'server' },
      ],
    },
    {
      name: 'in places for samples count only where there is nothing else',
      files: {
        'package.json': PLAIN,
        'examples/a/package.json': PLAIN,
        'test/fixtures/b/package.json': PLAIN,
      },
      finds: [{ directory: '' }],
    },
    {
      name: 'are found in places for samples where there is nothing else',
      files: { 'examples/a/package.json': PLAIN, 'vendor/b/package.json': PLAIN, 'dist/package.json': PLAIN },
      finds: [{ directory: 'examples/a' }],
    },
    {
      name: 'do not take a workspace around them for their own',
      files: {
        'package.json': '{}',
        'pnpm-workspace.yaml': 'packages: [a]\n',
        'docs/package.json': PLAIN,
        'docs/pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
      },
      finds: [
        { directory: '' },
        { directory: 'docs', setup: 'pnpm install --ignore-workspace --frozen-lockfile' },
      ],
    },
    {
      name: 'may be taken as files and directories of the project',
      files: {
        'package.json': json({
          dependencies: { a: 'file:./vendor/a.tgz', b: 'link:libs/b', c: 'file:../c', d: 'file:gone' },
        }),
        'vendor/a.tgz': '',
        'libs/b/package.json': '{"name":"b"}',
      },
      finds: [
        {
          inputs: ['libs/b/package.json', 'package.json', 'vendor/a.tgz'],
          generated: ['node_modules', 'libs/b/node_modules'],
          notes: [/takes c from outside the project/, /takes d from gone, which does not exist/],
        },
      ],
    },
  ])
})

describe('dependencies that need more than npm', () => {
  testDetector(detectNode, [
    {
      name: 'name packages of the system',
      files: { 'package.json': json({ dependencies: { canvas: '2', 'pg-native': '3', sharp: '1' } }) },
      finds: [
        {
          packages: [
            'libcairo2-dev',
            'libpango1.0-dev',
            'libjpeg-dev',
            'libgif-dev',
            'librsvg2-dev',
            'build-essential',
            'python3',
            'pkg-config',
            'libpq-dev',
          ],
        },
      ],
    },
    {
      name: 'are seen in npm’s lockfile, too',
      files: {
        'package.json': PLAIN,
        'package-lock.json': json({ packages: { 'node_modules/bcrypt': {}, 'node_modules/node-gyp': {} } }),
      },
      finds: [{ packages: ['build-essential', 'python3'] }],
    },
    {
      name: 'are compiled where the package itself is',
      files: { 'package.json': PLAIN, 'binding.gyp': '{}' },
      finds: [{ packages: ['build-essential', 'python3'] }],
    },
    {
      name: 'are kept from fetching what no registry has',
      files: { 'package.json': json({ devDependencies: { cypress: '13' } }) },
      finds: [{ variables: { CYPRESS_INSTALL_BINARY: '0' }, notes: [/cypress would fetch/] }],
    },
  ])
})

test('what was found is quoted with its line', () => {
  const [finding] = detectNode(
    memoryTree({ 'package.json': PLAIN, 'yarn.lock': '', 'package-lock.json': '{}' }),
  )
  assert.deepEqual(finding?.commands.test?.evidence, {
    file: 'package.json',
    line: 4,
    said: '"test": "node --test"',
  })
  assert.deepEqual(finding?.manager?.beat, [
    {
      name: 'npm',
      evidence: { file: 'package-lock.json', said: 'package-lock.json' },
      why: 'there are several lockfiles and that of yarn goes first; choose one with "packageManager" in package.json',
    },
  ])
})
