import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectNode } from './detect.ts'

const json = (value: unknown): string => JSON.stringify(value, null, 2)
/** A package whose scripts do nothing to an install. */
const PLAIN = json({ name: 'shop', scripts: { test: 'node --test' }, dependencies: { ms: '2.1.3' } })
const BERRY = (format: number): string => `# yarn\n\n__metadata:\n  version: ${format}\n  cacheKey: 10\n`

describe('the package manager', () => {
  testDetector(detectNode, [
    {
      name: 'is npm where nobody says',
      files: { 'package.json': PLAIN },
      finds: [
        { manager: 'npm', setup: 'npm install --no-audit --no-fund --no-package-lock', lockfile: undefined },
      ],
    },
    {
      name: 'is the one of the lockfile',
      files: { 'package.json': PLAIN, 'npm-shrinkwrap.json': '{}' },
      finds: [{ manager: 'npm', lockfile: 'npm-shrinkwrap.json', setup: 'npm ci' }],
    },
    ...(
      [
        ['5.3', '7'],
        ['5.4', '7'],
        ["'6.0'", '8'],
        ["'9.0'", '9'],
      ] as const
    ).map(([format, version]) => ({
      name: `is pnpm ${version} for a lockfile of version ${format}`,
      files: { 'package.json': PLAIN, 'pnpm-lock.yaml': `lockfileVersion: ${format}\n` },
      finds: [{ manager: 'pnpm', tools: [`pnpm ${version}`], setup: 'pnpm install --frozen-lockfile' }],
    })),
    {
      name: 'is pnpm 10 where the project names what may be built',
      files: {
        'package.json': PLAIN,
        'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
        'pnpm-workspace.yaml': 'onlyBuiltDependencies:\n  - esbuild\n',
      },
      finds: [{ tools: ['pnpm 10'] }],
    },
    {
      name: 'is the pnpm of the workflows',
      files: {
        'package.json': PLAIN,
        'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
        '.github/workflows/ci.yml':
          'jobs:\n  test:\n    steps:\n      - uses: pnpm/action-setup@v4\n        with:\n          version: 10.2.1\n',
      },
      finds: [{ tools: ['pnpm 10.2.1'] }],
    },
    {
      name: 'is the first Yarn without the second’s lockfile',
      files: { 'package.json': PLAIN, 'yarn.lock': '# yarn lockfile v1\n', '.yarnrc': '' },
      finds: [
        {
          manager: 'yarn',
          tools: ['yarn 1'],
          setup: 'yarn install --frozen-lockfile',
          inputs: ['.yarnrc', 'package.json', 'yarn.lock'],
        },
      ],
    },
    ...(
      [
        [4, '~3.0.0'],
        [6, '>=3.2.0 <4'],
        [8, '>=4.0.0 <4.14.0'],
        [9, '~4.14.0'],
        [10, '4'],
      ] as const
    ).map(([format, version]) => ({
      name: `is a later Yarn, ${version}, for a lockfile of version ${format}`,
      files: { 'package.json': PLAIN, 'yarn.lock': BERRY(format) },
      finds: [{ manager: 'yarn-berry', tools: [`yarn ${version}`], setup: 'yarn install --immutable' }],
    })),
    {
      name: 'is the Yarn that lies in the project',
      files: {
        'package.json': PLAIN,
        'yarn.lock': BERRY(8),
        '.yarnrc.yml': 'nodeLinker: node-modules\nyarnPath: .yarn/releases/yarn-4.1.0.cjs\n',
        '.yarn/releases/yarn-4.1.0.cjs': '',
        '.yarn/patches/a.patch': '',
        '.yarn/cache/a.zip': '',
      },
      finds: [
        {
          tools: ['yarn 4.1.0'],
          generated: ['node_modules'],
          inputs: [
            '.yarn/patches/a.patch',
            '.yarn/releases/yarn-4.1.0.cjs',
            '.yarnrc.yml',
            'package.json',
            'yarn.lock',
          ],
        },
      ],
    },
    {
      name: 'makes no modules where Yarn plugs in, and what is committed of that is the project’s',
      files: { 'package.json': PLAIN, 'yarn.lock': BERRY(8), '.pnp.cjs': '', '.yarn/cache/a.zip': '' },
      finds: [
        {
          generated: [
            '.pnp.loader.mjs',
            '.yarn/unplugged',
            '.yarn/install-state.gz',
            '.yarn/build-state.yml',
          ],
        },
      ],
    },
    {
      name: 'is named exactly, with its hash left out',
      files: {
        'package.json': json({ ...JSON.parse(PLAIN), packageManager: 'pnpm@9.12.1+sha512.aaaa' }),
        'pnpm-lock.yaml': 'x',
      },
      finds: [{ manager: 'pnpm', tools: ['pnpm 9.12.1'] }],
    },
    {
      name: 'is the one that is named, whatever lies beside it',
      files: {
        'package.json': json({ packageManager: 'yarn@3.6.1', dependencies: { ms: '2' } }),
        'package-lock.json': '{}',
        'yarn.lock': BERRY(6),
        'pnpm-lock.yaml': '',
      },
      finds: [
        { manager: 'yarn-berry', tools: ['yarn 3.6.1'], beaten: ['pnpm', 'npm'], lockfile: 'yarn.lock' },
      ],
    },
    {
      name: 'is pnpm before Bun before Yarn before npm where there are several lockfiles',
      files: {
        'package.json': PLAIN,
        'package-lock.json': '{}',
        'yarn.lock': '# yarn lockfile v1',
        'pnpm-lock.yaml': 'lockfileVersion: 5.4\n',
      },
      finds: [{ manager: 'pnpm', beaten: ['yarn', 'npm'] }],
    },
    {
      name: 'is named by the field for development',
      files: {
        'package.json': json({
          devEngines: { packageManager: { name: 'pnpm', version: '^9.1' } },
          dependencies: { a: '1' },
        }),
      },
      finds: [{ manager: 'pnpm', tools: ['pnpm ^9.1'], setup: 'pnpm install --no-lockfile' }],
    },
    {
      name: 'is named by the engines where nothing else says',
      files: { 'package.json': json({ engines: { pnpm: '>=8' }, dependencies: { a: '1' } }) },
      finds: [{ manager: 'pnpm', tools: ['pnpm >=8'] }],
    },
    {
      name: 'is not what a command could be smuggled in by',
      files: {
        'package.json': json({ packageManager: 'pnpm@9;reboot', dependencies: { a: '1' } }),
        'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
      },
      finds: [{ manager: 'pnpm', tools: ['pnpm 9'] }],
    },
  ])
})

describe('Bun', () => {
  testDetector(detectNode, [
    {
      name: 'is the language where its lockfile lies',
      files: {
        'package.json': PLAIN.replace('node --test', 'jest'),
        'bun.lockb': '\0',
        '.bun-version': '1.2.3\n',
      },
      finds: [
        {
          language: 'bun',
          manager: 'bun',
          tools: [],
          setup: 'bun install --frozen-lockfile',
          test: 'bun run test',
          versions: ['1.2.3 version file .bun-version:1'],
        },
      ],
    },
    {
      name: 'needs Node as well where scripts call it',
      files: { 'package.json': PLAIN, 'bun.lock': '{}', '.nvmrc': '22' },
      finds: [{ language: 'bun', tools: ['node 22'] }],
    },
    {
      name: 'tests by itself, and its version is the one that is named',
      files: {
        'package.json': '{"packageManager":"bun@1.1.30","dependencies":{"a":"1"}}',
        'src/a.test.ts': 'import { test } from "bun:test"',
      },
      finds: [
        {
          language: 'bun',
          test: 'bun test',
          versions: ['1.1.30 manifest package.json:1'],
          setup: 'bun install --no-save',
        },
      ],
    },
  ])
})
