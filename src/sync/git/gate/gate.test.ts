/** Group GT, 14: which files of a result run on the host later, as one table. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type GateChange, gateOf, mayName, ruleFor } from './gate.ts'
import { GATE_KINDS, GATE_RULES, type GateKind } from './gate-rules.ts'

/** A path and what it is taken for; a dash: for nothing. */
const PATHS: readonly (readonly [GateKind | '-', ...string[]])[] = [
  ['hook', '.husky/pre-commit', '.husky/_/husky.sh', '.githooks/pre-push', 'tools/git-hooks/post-merge'],
  ['hook', 'lefthook.yml', 'lefthook-local.yml', '.pre-commit-config.yaml', 'hk.pkl', '.overcommit.yml'],
  ['hook', '.lintstagedrc.json', 'lint-staged.config.mjs', '.commitlintrc', '.simple-git-hooks.cjs'],
  ['git', '.gitattributes', 'docs/.gitattributes', '.gitmodules', '.lfsconfig'],
  ['editor', '.vscode/tasks.json', '.vscode/settings.json', '.vscode/launch.json', '.vscode/extensions.json'],
  [
    'editor',
    'web/.vscode/tasks.json',
    'x.code-workspace',
    '.idea/workspace.xml',
    '.idea/runConfigurations/a.xml',
  ],
  [
    'editor',
    '.run/Test.run.xml',
    '.zed/tasks.json',
    '.nvim.lua',
    '.exrc',
    '.dir-locals.el',
    '.clangd',
    '.vs/tasks.vs.json',
  ],
  [
    'agent',
    '.claude/settings.json',
    '.claude/settings.local.json',
    '.claude/hooks/x.py',
    '.claude/commands/go.md',
  ],
  [
    'agent',
    '.mcp.json',
    '.codex/config.toml',
    '.gemini/settings.json',
    '.qwen/settings.json',
    '.opencode/plugin/x.ts',
  ],
  [
    'agent',
    'opencode.json',
    'opencode.jsonc',
    '.cursor/mcp.json',
    '.cursor/hooks.json',
    '.aider.conf.yml',
    '.continue/config.yaml',
  ],
  [
    'agent',
    '.github/hooks/x.json',
    '.kiro/hooks/a',
    '.clinerules/hooks/PreToolUse',
    'crush.json',
    '.agents/skills/x/run.sh',
  ],
  [
    'instructions',
    'CLAUDE.md',
    'AGENTS.md',
    'sub/AGENTS.md',
    'GEMINI.md',
    'QWEN.md',
    '.cursorrules',
    '.cursor/rules/x.mdc',
  ],
  [
    'instructions',
    '.github/copilot-instructions.md',
    '.windsurfrules',
    '.clinerules',
    '.clinerules/style.md',
    '.goosehints',
  ],
  [
    'shell',
    '.envrc',
    'sub/.envrc',
    '.env',
    '.env.local',
    '.bashrc',
    'mise.toml',
    '.mise.toml',
    '.config/mise/config.toml',
  ],
  [
    'shell',
    '.tool-versions',
    'flake.nix',
    'shell.nix',
    'devbox.json',
    '.mise/tasks/build',
    '.gdbinit',
    '.irbrc',
  ],
  [
    'ci',
    '.github/workflows/ci.yml',
    '.github/actions/x/action.yml',
    '.gitlab-ci.yml',
    'ci/deploy.gitlab-ci.yml',
    'Jenkinsfile',
  ],
  [
    'ci',
    '.circleci/config.yml',
    'azure-pipelines.yml',
    'bitbucket-pipelines.yml',
    '.travis.yml',
    '.buildkite/pipeline.yml',
  ],
  [
    'ci',
    '.drone.yml',
    '.woodpecker/test.yaml',
    'cloudbuild.yaml',
    'CODEOWNERS',
    '.github/CODEOWNERS',
    'vercel.json',
    'Procfile',
  ],
  [
    'package',
    '.npmrc',
    '.yarnrc.yml',
    '.yarn/releases/yarn-4.cjs',
    '.yarn/plugins/x.cjs',
    '.pnpmfile.cjs',
    'pnpm-workspace.yaml',
  ],
  [
    'package',
    'setup.py',
    'setup.cfg',
    'Gemfile',
    'x.gemspec',
    '.cargo/config.toml',
    'rust-toolchain.toml',
    'binding.gyp',
    'deno.json',
  ],
  [
    'package',
    'node_modules/x/index.js',
    'web/node_modules/.bin/x',
    '.venv/bin/python',
    'x.pth',
    'sitecustomize.py',
    'mix.exs',
  ],
  [
    'build',
    'Makefile',
    'makefile',
    'GNUmakefile',
    'rules.mk',
    'justfile',
    'Taskfile.yml',
    'Rakefile',
    'CMakeLists.txt',
    'build.rs',
  ],
  [
    'build',
    'build.gradle',
    'app/build.gradle.kts',
    'gradlew',
    'gradle/wrapper/gradle-wrapper.jar',
    'mvnw',
    '.mvn/extensions.xml',
  ],
  [
    'build',
    'pom.xml',
    'build.sbt',
    'BUILD.bazel',
    'defs.bzl',
    'App.csproj',
    'Directory.Build.props',
    'noxfile.py',
    'gulpfile.js',
  ],
  [
    'tool',
    'vite.config.ts',
    'eslint.config.mjs',
    '.eslintrc.js',
    '.eslintrc',
    'jest.config.js',
    '.prettierrc',
    'conftest.py',
    'tests/conftest.py',
  ],
  [
    'tool',
    'pytest.ini',
    'tox.ini',
    '.pylintrc',
    '.rubocop.yml',
    '.mocharc.yml',
    '.golangci.yml',
    'next.config.js',
  ],
  [
    'container',
    'Dockerfile',
    'Dockerfile.dev',
    'api.dockerfile',
    'compose.yaml',
    'docker-compose.override.yml',
    '.devcontainer/devcontainer.json',
    'Vagrantfile',
  ],
  ['agentpod', 'agentpod.toml', 'agentpod.lock', '.agentpod/x'],
  // Other spellings of the same name, as some disk would have it.
  ['editor', '.VSCODE/tasks.json', '.vscode./tasks.json', '.vs\u200dcode/tasks.json', '.vscode /tasks.json'],
  ['build', 'MAKEFILE', 'Makefile.'],
  ['agent', '.Claude/SETTINGS.json', '.mcp.JSON'],
  ['hook', '.HUSKY/pre-commit'],
  ['ci', '.GitHub/Workflows/x.yml', 'JENKINSFILE'],
  ['shell', '.ENVRC'],
  // What people change all day.
  [
    '-',
    'src/index.ts',
    'README.md',
    'docs/claude.md.txt',
    'test/a.test.js',
    'package-lock.json',
    'go.mod',
    'main.py',
    'src/make.c',
  ],
  [
    '-',
    '.gitignore',
    '.editorconfig',
    '.env.example',
    '.env.sample',
    'vscode/tasks.json',
    'docs/husky/readme.md',
    'LICENSE',
    'config.ts',
  ],
  [
    '-',
    'src/hooks/use-x.ts',
    'requirements.txt',
    'Cargo.lock',
    'src/env.ts',
    'Makefile.md/x',
    'tsconfig.json',
    '.github/ISSUE_TEMPLATE/bug.md',
  ],
]

describe('gate rules', () => {
  for (const [kind, ...paths] of PATHS)
    for (const path of paths)
      test(`the gate rule for ${JSON.stringify(path)} is ${kind}`, () => {
        if (path === 'Makefile.md/x') assert.equal(ruleFor(path), undefined)
        else assert.equal(ruleFor(path)?.kind ?? '-', kind)
      })

  test('every kind that names decide has a gate rule', () => {
    const kinds = new Set(GATE_RULES.map(({ kind }) => kind))
    assert.deepEqual(
      GATE_KINDS.filter((kind) => !kinds.has(kind)),
      ['link', 'script'],
    )
  })

  test('patterns of gate rules have one of the two supported forms', () => {
    for (const { patterns, except = [] } of GATE_RULES)
      for (const pattern of [...patterns, ...except])
        assert.ok(!pattern.includes('/') || pattern.startsWith('**/'), pattern)
  })

  test('the directory that the user’s git takes hooks from is gated', () => {
    assert.equal(ruleFor('build/hooks/pre-commit', 'build/hooks')?.kind, 'hook')
    assert.equal(ruleFor('Build/Hooks/pre-commit', './build/hooks/')?.kind, 'hook')
    assert.equal(ruleFor('build/other', 'build/hooks'), undefined)
  })

  test('gate rules accept names of any length', () => {
    for (const part of ['a', '.', ' ', '. ', '/', '.vscode/', 'x.config.'])
      assert.equal(typeof ruleFor(part.repeat(20_000)), part === '.vscode/' ? 'object' : 'undefined')
  })
})

interface Case {
  readonly name: string
  readonly before?: Readonly<Record<string, string>>
  readonly after: Readonly<
    Record<string, string | null | { readonly link: string } | { readonly run: string }>
  >
  /** What did not change. */
  readonly standing?: Readonly<Record<string, string>>
  readonly hooksPath?: string
  /** `kind path`, in order. */
  readonly gated: readonly string[]
  readonly why?: RegExp
}

const json = (value: unknown): string => JSON.stringify(value)

const CASES: readonly Case[] = [
  {
    name: 'a package’s version, dependencies and words',
    before: { 'package.json': json({ version: '1', scripts: { test: 'x' }, dependencies: { a: '1' } }) },
    after: {
      'package.json': json({
        version: '2',
        scripts: { test: 'x' },
        dependencies: { a: '2', b: '^1' },
        description: 'd',
      }),
    },
    gated: [],
  },
  {
    name: 'a package’s scripts',
    before: { 'package.json': json({ scripts: { test: 'x' } }) },
    after: { 'package.json': json({ scripts: { test: 'y' } }) },
    gated: ['package package.json'],
    why: /changed: scripts$/,
  },
  {
    name: 'a new package with scripts',
    after: { 'p/package.json': json({ scripts: { postinstall: 'x' } }) },
    gated: ['package p/package.json'],
  },
  {
    name: 'a new package without',
    after: { 'p/package.json': json({ name: 'p', dependencies: { a: '1' } }) },
    gated: [],
  },
  {
    name: 'a removed package',
    before: { 'package.json': json({ name: 'p' }) },
    after: { 'package.json': null },
    gated: [],
  },
  {
    name: 'a program of a package',
    before: { 'package.json': '{}' },
    after: { 'package.json': json({ bin: 'x.js' }) },
    gated: ['package package.json'],
  },
  {
    name: 'a dependency from elsewhere',
    before: { 'package.json': '{}' },
    after: { 'package.json': json({ devDependencies: { a: 'git+ssh://example.com/a' } }) },
    gated: ['package package.json'],
    why: /changed: devDependencies$/,
  },
  {
    name: 'a dependency by an alias',
    before: { 'package.json': '{}' },
    after: { 'package.json': json({ dependencies: { a: 'npm:b@1', c: 'workspace:*' } }) },
    gated: [],
  },
  {
    name: 'a package manager',
    before: { 'package.json': '{}' },
    after: { 'package.json': json({ packageManager: 'yarn@9' }) },
    gated: ['package package.json'],
  },
  {
    name: 'hooks in a package',
    before: { 'package.json': '{}' },
    after: { 'package.json': json({ 'simple-git-hooks': { 'pre-commit': 'x' } }) },
    gated: ['package package.json'],
  },
  {
    name: 'a package that cannot be read',
    before: { 'package.json': '{}' },
    after: { 'package.json': '{' },
    gated: ['package package.json'],
  },
  {
    name: 'a package that is a list',
    before: { 'package.json': '{}' },
    after: { 'package.json': '[]' },
    gated: ['package package.json'],
  },
  {
    name: 'keys that mean something to JavaScript',
    before: { 'package.json': '{}' },
    after: { 'package.json': '{"__proto__":{"scripts":{"a":"b"}},"constructor":1}' },
    gated: [],
  },
  {
    name: 'a package nested too deep',
    before: { 'package.json': '{}' },
    after: { 'package.json': `{"scripts":${'['.repeat(20_000)}${']'.repeat(20_000)}}` },
    gated: ['package package.json'],
  },
  {
    name: 'a project’s dependencies',
    before: { 'pyproject.toml': '[project]\ndependencies = []' },
    after: { 'pyproject.toml': '[project]\ndependencies = ["a"]' },
    gated: [],
  },
  {
    name: 'a project’s builder',
    before: { 'pyproject.toml': '' },
    after: { 'pyproject.toml': '[build-system]\nbuild-backend = "x"' },
    gated: ['package pyproject.toml'],
  },
  {
    name: 'a project’s tests',
    before: { 'pyproject.toml': '' },
    after: { 'pyproject.toml': '[tool.pytest.ini_options]\naddopts = "-p x"' },
    gated: ['package pyproject.toml'],
  },
  {
    name: 'a crate’s dependencies',
    before: { 'Cargo.toml': '[package]\nname = "a"' },
    after: { 'Cargo.toml': '[package]\nname = "a"\n[dependencies]\nb = "1"' },
    gated: [],
  },
  {
    name: 'a crate’s build',
    before: { 'Cargo.toml': '[package]\nname = "a"' },
    after: { 'Cargo.toml': '[package]\nname = "a"\nbuild = "x.rs"' },
    gated: ['package Cargo.toml'],
  },
  {
    name: 'composer’s scripts',
    before: { 'composer.json': '{}' },
    after: { 'composer.json': json({ scripts: { x: 'y' } }) },
    gated: ['package composer.json'],
  },
  {
    name: 'a removed workflow',
    before: { '.github/workflows/a.yml': 'x' },
    after: { '.github/workflows/a.yml': null },
    gated: ['ci .github/workflows/a.yml'],
    why: /removed$/,
  },
  {
    name: 'links inside',
    after: { a: { link: 'b' }, 'x/y': { link: '../z' }, self: { link: '.' } },
    gated: [],
  },
  {
    name: 'links that lead out',
    after: {
      a: { link: '/etc/passwd' },
      b: { link: '../x' },
      'c/d': { link: '../../x' },
      e: { link: 'f/../../x' },
      g: { link: '~/x' },
    },
    gated: ['link a', 'link b', 'link c/d', 'link e'],
  },
  {
    name: 'links into git’s own files',
    after: { a: { link: '.git/hooks' }, b: { link: '.GIT/config' } },
    gated: ['link a', 'link b'],
  },
  {
    name: 'scripts that a changed task names',
    after: {
      '.vscode/tasks.json': json({ command: '$' + '{workspaceFolder}/scripts/go.sh' }),
      'scripts/go.sh': 'x',
      'scripts/other.sh': 'y',
    },
    gated: ['editor .vscode/tasks.json', 'script scripts/go.sh'],
    why: /named by \.vscode\/tasks\.json$/,
  },
  {
    name: 'scripts that a Makefile names',
    after: { Makefile: 'all:\n\tpython3 tools/gen.py', 'tools/gen.py': 'x', 'tools/gen.md': 'y' },
    gated: ['build Makefile', 'script tools/gen.py'],
  },
  {
    name: 'scripts that changed scripts of a package name',
    before: { 'package.json': '{}' },
    after: {
      'package.json': json({ scripts: { a: 'node ./tools/x' }, main: 'src/main.js' }),
      'tools/x.mjs': 'x',
      'src/main.js': 'y',
    },
    gated: ['package package.json', 'script tools/x.mjs'],
  },
  {
    name: 'scripts that other commands of a changed package name',
    before: { 'package.json': json({ scripts: { start: 'node server.js' } }) },
    after: {
      'package.json': json({ scripts: { start: 'node server.js', lint: 'node lint.js' } }),
      'server.js': 'x',
      'lint.js': 'y',
    },
    gated: ['package package.json', 'script lint.js'],
  },
  {
    name: 'scripts that old lines of a Makefile name',
    before: { Makefile: 'all:\n\tnode server.js\n' },
    after: { Makefile: 'all:\n\tnode server.js\nlint:\n\tnode lint.js\n', 'server.js': 'x', 'lint.js': 'y' },
    gated: ['build Makefile', 'script lint.js'],
  },
  {
    name: 'scripts that old lines of a hook name',
    before: { '.husky/pre-commit': './old.sh\n' },
    after: { '.husky/pre-commit': './old.sh\necho\n', 'old.sh': 'x' },
    gated: ['hook .husky/pre-commit', 'script old.sh'],
  },
  {
    name: 'scripts that an install of a package runs whose version changed',
    before: {
      'package.json': json({ version: '1', scripts: { prepare: 'node setup.js', start: 'node server.js' } }),
    },
    after: {
      'package.json': json({ version: '2', scripts: { prepare: 'node setup.js', start: 'node server.js' } }),
      'setup.js': 'x',
      'server.js': 'y',
    },
    gated: ['script setup.js'],
  },
  {
    name: 'scripts that an install runs',
    standing: {
      'package.json': json({ scripts: { postinstall: 'node scripts/setup.js', test: 'node test.js' } }),
    },
    after: { 'scripts/setup.js': 'x', 'test.js': 'y' },
    gated: ['script scripts/setup.js'],
    why: /named by package\.json/,
  },
  {
    name: 'scripts that an install runs by other names',
    standing: {
      'package.json': json({
        scripts: {
          prepare: 'npm run build',
          build: 'npm run -s deep',
          prebuild: 'node pre.js',
          deep: 'sh deep.sh',
        },
      }),
    },
    after: { 'deep.sh': 'x', 'pre.js': 'y', 'z.js': 'z' },
    gated: ['script deep.sh', 'script pre.js'],
  },
  {
    name: 'scripts that an install of a package inside runs',
    standing: { 'packages/a/package.json': json({ scripts: { install: './run.sh' } }) },
    after: { 'packages/a/run.sh': 'x', 'run2.sh': 'y' },
    gated: ['script packages/a/run.sh'],
  },
  {
    name: 'scripts that run each other for ever',
    standing: {
      'package.json': json({
        scripts: { prepare: 'npm run a', a: 'npm run b', b: 'npm run a && node x.js' },
      }),
    },
    after: { 'x.js': 'x' },
    gated: ['script x.js'],
  },
  {
    name: 'scripts that a standing hook names',
    standing: { '.husky/pre-commit': '#!/bin/sh\n./scripts/check.sh "$@"\n' },
    after: { 'scripts/check.sh': { run: 'x' }, 'lib/x.js': 'y' },
    gated: ['script scripts/check.sh'],
  },
  {
    name: 'scripts that a standing hook runs by the package’s names',
    standing: {
      '.husky/pre-commit': 'npm test\n',
      'package.json': json({ scripts: { test: 'node tools/t.js' } }),
    },
    after: { 'tools/t.js': 'x' },
    gated: ['script tools/t.js'],
  },
  {
    name: 'scripts that a standing hook runs by npm run',
    standing: {
      '.husky/pre-commit': 'npm run lint\n',
      'package.json': json({ scripts: { lint: 'node tools/t.js' } }),
    },
    after: { 'tools/t.js': 'x' },
    gated: ['script tools/t.js'],
  },
  {
    name: 'scripts of an agent’s hooks',
    standing: {
      '.claude/settings.json': json({ hooks: [{ command: '$CLAUDE_PROJECT_DIR/tools/guard.py' }] }),
    },
    after: { 'tools/guard.py': 'x' },
    gated: ['script tools/guard.py'],
  },
  {
    name: 'scripts that a standing .envrc names',
    standing: { '.envrc': 'source ./env/dev.bash\nPATH_add bin\n' },
    after: { 'env/dev.bash': 'x', 'src/a.js': 'y' },
    gated: ['script env/dev.bash'],
  },
  {
    name: 'scripts that are called after moving',
    standing: { '.githooks/pre-push': 'cd tools && ./deep.sh' },
    after: { 'tools/deep.sh': 'x' },
    gated: ['script tools/deep.sh'],
  },
  {
    name: 'scripts that are called by a star',
    standing: { '.husky/pre-commit': 'for f in checks/*.sh; do sh $f; done' },
    after: { 'checks/a.sh': 'x', 'other/b.sh': 'y' },
    gated: ['script checks/a.sh'],
  },
  {
    name: 'scripts that are called as modules',
    standing: { '.envrc': 'python -m tools.prep' },
    after: { 'tools/prep.py': 'x', 'tools/other.py': 'y' },
    gated: ['script tools/prep.py'],
  },
  {
    name: 'what a standing tool’s program loads, and not what it works on',
    standing: {
      'eslint.config.mjs': "import rule from './rules/mine.js'\nexport default { entry: './src/main.js' }",
    },
    after: { 'rules/mine.js': 'x', 'src/main.js': 'y' },
    gated: ['script rules/mine.js'],
  },
  {
    name: 'scripts named by scripts',
    after: {
      '.envrc': '. ./one.sh',
      'one.sh': '. ./two.sh',
      'two.sh': '. ./three.sh',
      'three.sh': 'x',
      'four.sh': 'x',
    },
    gated: ['shell .envrc', 'script one.sh', 'script two.sh', 'script three.sh'],
  },
  {
    name: 'what instructions name',
    after: { 'CLAUDE.md': 'run scripts/x.sh', 'scripts/x.sh': 'x' },
    gated: ['instructions CLAUDE.md'],
  },
  {
    name: 'a Makefile that did not change',
    standing: { Makefile: 'all:\n\t./x.sh' },
    after: { 'x.sh': 'x' },
    gated: [],
  },
  {
    name: 'hooks from a directory of the user’s',
    after: { 'build/hooks/pre-commit': 'x', 'build/y.sh': 'y' },
    hooksPath: 'build/hooks',
    gated: ['hook build/hooks/pre-commit'],
  },
]

describe('gating results', () => {
  for (const { name, before = {}, after, standing = {}, hooksPath, gated, why } of CASES)
    test(`RUN-17 the gate: ${name}`, () => {
      const changes = Object.entries(after).map(
        ([path, content]): GateChange => ({
          path,
          before: Object.hasOwn(before, path) ? '100644' : undefined,
          after:
            content === null
              ? undefined
              : typeof content === 'string'
                ? '100644'
                : 'link' in content
                  ? '120000'
                  : '100755',
        }),
      )
      const text = (path: string): string | undefined => {
        const content = Object.hasOwn(after, path) ? after[path] : standing[path]
        return typeof content === 'object' && content
          ? 'link' in content
            ? content.link
            : content.run
          : (content ?? undefined)
      }
      const found = gateOf({
        changes,
        before: (path) => before[path],
        after: text,
        standing: Object.keys(standing).filter((path) => mayName(path)),
        hooksPath,
      })
      assert.deepEqual(
        found.map(({ kind, path }) => `${kind} ${path}`),
        gated,
      )
      if (why) assert.match(found.at(-1)?.why ?? '', why)
    })
})
