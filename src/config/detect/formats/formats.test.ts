import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidencePlace } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectFormats } from './detect.ts'
import type { FormatFile } from './format-file.ts'

/** A file in short form; empty parts are left out. */
function shortForm(format: FormatFile): Record<string, unknown> {
  const { file, rank, bases, versions, packages, extra, setup, start, commands, services } = format
  const { processes, ports, variables, path } = format
  const all: Record<string, unknown> = {
    bases: bases.map(({ image, dockerfile, evidence }) =>
      [image ?? `${dockerfile?.file} in ${dockerfile?.context || '.'}`, evidencePlace(evidence)].join(' '),
    ),
    versions: versions.map(
      ({ language, value, evidence }) => `${language} ${value} ${evidencePlace(evidence)}`,
    ),
    packages: packages.map(({ name }) => name),
    extra: extra.map(({ manager, name }) => `${manager} ${name}`),
    setup: setup.map(({ run, directory, evidence }) =>
      [run, ...(directory === undefined ? [] : [`in ${directory}`]), evidencePlace(evidence)].join(' '),
    ),
    start: start.map(({ run }) => run),
    commands: Object.entries(commands).flatMap(([verb, list]) =>
      list.map(
        ({ run, evidence }) =>
          `${verb}: ${run.replaceAll('(exit $?) || exit', 'OR_EXIT')} ${evidencePlace(evidence)}`,
      ),
    ),
    services: services.map(({ name, version }) => (version === undefined ? name : `${name} ${version}`)),
    processes: processes.map(({ name, run, port, ready }) => [name, run, port ?? ready ?? ''].join('|')),
    ports: ports.map(({ port, label }) => (label === undefined ? `${port}` : `${port} ${label}`)),
    variables: variables.map(({ name, value }) => `${name}=${value}`),
    path: [...path],
  }
  const full = Object.entries(all).filter(([, list]) => (list as unknown[]).length > 0)
  return { file, rank, ...Object.fromEntries(full) }
}

interface FormatRow {
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  readonly says: readonly Readonly<Record<string, unknown>>[]
  /** All notes, each by a pattern, in order. */
  readonly notes?: readonly RegExp[]
}

const PLATFORM = 'platform file'
const ROWS: readonly FormatRow[] = [
  {
    name: '.gitpod.yml with an image, tasks and ports',
    files: {
      '.gitpod.yml': `image: gitpod/workspace-node:2024
tasks:
  - name: api
    before: export MODE=dev
    init: |
      npm ci
      npm run build
    command: npm run dev
    env: { A: "b c", N: 3 }
  - command: npm run worker
    openMode: split-right
ports:
  - port: 3000
    name: Web
    onOpen: open-preview
  - port: 4000-4002
    visibility: public
  - port: 1-60000
vscode: { extensions: [a.b] }
colour: blue
`,
    },
    says: [
      {
        file: '.gitpod.yml',
        rank: PLATFORM,
        bases: ['gitpod/workspace-node:2024 .gitpod.yml:1'],
        setup: [
          "export A='b c'\nexport N=3\nexport MODE=dev\nexport A='b c'\nexport N=3\nnpm ci\nnpm run build .gitpod.yml:5",
        ],
        start: ["export A='b c'\nexport N=3\nexport MODE=dev"],
        commands: [
          "dev: export A='b c'\nexport N=3\nexport MODE=dev\nexport A='b c'\nexport N=3\nnpm run dev .gitpod.yml:8",
          'dev: npm run worker .gitpod.yml:10',
        ],
        ports: ['3000 Web', '4000', '4001', '4002'],
      },
    ],
    notes: [
      /^\.gitpod\.yml:11: tasks\[2\]\.openMode is not used: /,
      /^\.gitpod\.yml:15: ports\[1\]\.onOpen is not used: /,
      /^\.gitpod\.yml:17: ports\[2\]\.visibility is not used: a public port needs public = true/,
      /^\.gitpod\.yml:18: ports\[3\] is not used: a range has at most 10 ports/,
      /^\.gitpod\.yml:19: vscode is not used: AgentPod installs no extensions/,
      /^\.gitpod\.yml:20: colour is not used: AgentPod does not know this key/,
    ],
  },
  {
    name: '.gitpod.yml with a Dockerfile',
    files: {
      '.gitpod.yml': 'image:\n  file: docker/Gitpod.Dockerfile\n  context: docker\n',
      'docker/Gitpod.Dockerfile': 'FROM debian:12\n',
    },
    says: [
      {
        file: '.gitpod.yml',
        rank: PLATFORM,
        bases: ['docker/Gitpod.Dockerfile in docker .gitpod.yml:2'],
      },
    ],
  },
  {
    name: '.gitpod.yml whose Dockerfile is outside the project or missing',
    files: { '.gitpod.yml': 'image:\n  file: ../../etc/Dockerfile\n' },
    says: [{ file: '.gitpod.yml', rank: PLATFORM }],
    notes: [/image\.file is not used: its path leads out of the project/],
  },
  {
    name: '.replit and replit.nix',
    files: {
      '.replit': `run = "npm run dev"
entrypoint = "index.js"
modules = ["nodejs-20", "python-3.11:v18-2023", "postgresql-16", "web", "svelte-kit-4"]
onBoot = "npm run migrate"
[nix]
channel = "stable-24_05"
packages = ["ffmpeg", "unheardOf"]
[env]
MODE = "dev"
HOME2 = "$HOME/x"
[[ports]]
localPort = 3000
externalPort = 80
[deployment]
run = ["sh", "-c", "npm start"]
build = ["npm", "run", "build it"]
deploymentTarget = "autoscale"
`,
      'replit.nix': `{ pkgs }: {
  # nothing here
  deps = [
    pkgs.nodejs_20 pkgs.jq
    (pkgs.python3.withPackages (p: [ p.x ]))
  ];
}
`,
    },
    says: [
      {
        file: '.replit',
        rank: PLATFORM,
        versions: ['node 20 .replit:3', 'python 3.11 .replit:3'],
        packages: ['ffmpeg'],
        start: ['npm run migrate'],
        commands: [
          'dev: npm run dev .replit:1',
          "build: npm run 'build it' .replit:16",
          'start: npm start .replit:15',
        ],
        services: ['postgres 16'],
        ports: ['3000'],
        variables: ['MODE=dev'],
      },
      {
        file: 'replit.nix',
        rank: PLATFORM,
        versions: ['node 20 replit.nix:4'],
        packages: ['jq'],
      },
    ],
    notes: [
      /^\.replit:3: modules\[5\] is not used: no toolchain is known for this module/,
      /^\.replit:7: the Nix package unheardOf is not used: no package of Debian is known/,
      /^\.replit:10: env\.HOME2 is not used: its value is computed from others/,
      /^\.replit:13: ports\[1\]\.externalPort is not used/,
      /^\.replit:2: entrypoint is not used/,
      /^\.replit:6: nix\.channel is not used/,
      /^\.replit:17: deployment\.deploymentTarget is not used/,
      /^replit\.nix:5: \(pkgs\.python3\.withPackages \(p: \[ p\.x \]\)\) is not used: it is computed/,
    ],
  },
  {
    name: 'nixpacks.toml with phases, and its ... ',
    files: {
      'nixpacks.toml': `providers = ["...", "python"]
[phases.setup]
nixPkgs = ["...", "nodejs_20", "ffmpeg"]
aptPkgs = ["...", "libpq-dev"]
[phases.lint]
dependsOn = ["build"]
cmds = ["npm run lint"]
[phases.install]
cmds = ["npm ci --legacy-peer-deps"]
[phases.build]
cmds = ["...", "npm run build"]
[start]
cmd = "npm start"
[variables]
NODE_ENV = "production"
PORT = 3000
NIXPACKS_PYTHON_VERSION = "3.11"
`,
    },
    says: [
      {
        file: 'nixpacks.toml',
        rank: PLATFORM,
        versions: ['python * nixpacks.toml:1', 'node 20 nixpacks.toml:3', 'python 3.11 nixpacks.toml:17'],
        packages: ['ffmpeg', 'libpq-dev'],
        setup: ['npm ci --legacy-peer-deps nixpacks.toml:9'],
        commands: [
          'build: npm run build\nnpm run lint nixpacks.toml:11',
          'start: npm start nixpacks.toml:13',
        ],
        variables: ['PORT=3000', 'NIXPACKS_PYTHON_VERSION=3.11'],
      },
    ],
    notes: [/^nixpacks\.toml:15: variables\.NODE_ENV is not used: with it, the dependencies of tests/],
  },
  {
    name: 'nixpacks.toml whose phases depend on each other',
    files: {
      'nixpacks.toml':
        '[phases.a]\ndependsOn = ["b"]\ncmds = ["x"]\n[phases.b]\ndependsOn = ["a"]\ncmds = ["y"]\n',
    },
    says: [{ file: 'nixpacks.toml', rank: PLATFORM }],
    notes: [/^nixpacks\.toml:1: phases\.a is not used: its dependsOn leads back to itself/],
  },
  {
    name: 'railpack.json',
    files: {
      'railpack.json': `{
  "$schema": "https://schema.railpack.com",
  "provider": "node",
  "packages": { "python": "3.12", "jq": "latest", "npm:prettier": "3.3.3" },
  "buildAptPackages": ["libpq-dev"],
  "steps": {
    "install": { "commands": ["npm ci", { "src": ".", "dest": "." }] },
    "build": { "inputs": [{ "step": "install" }], "commands": ["...", { "cmd": "npm run build" }] }
  },
  "deploy": { "aptPackages": ["ffmpeg"], "startCommand": "npm start", "inputs": [] },
  "secrets": ["TOKEN"]
}`,
    },
    says: [
      {
        file: 'railpack.json',
        rank: PLATFORM,
        versions: ['node * railpack.json:3', 'python 3.12 railpack.json:4'],
        packages: ['jq', 'libpq-dev', 'ffmpeg'],
        extra: ['npm prettier@3.3.3'],
        setup: ['npm ci railpack.json:7'],
        commands: ['build: npm run build railpack.json:8', 'start: npm start railpack.json:10'],
      },
    ],
    notes: [/^railpack\.json:11: secrets is not used: builds get no secrets/, /deploy\.inputs is not used/],
  },
  {
    name: 'railway.toml and railway.json',
    files: {
      'railway.toml': `[build]
builder = "nixpacks"
buildCommand = "npm run build"
[build.nixpacksPlan.phases.setup]
aptPkgs = ["ffmpeg"]
[deploy]
startCommand = "node server.js"
preDeployCommand = ["npm run migrate"]
healthcheckPath = "/health"
`,
      'railway.json': '{ "build": { "builder": "DOCKERFILE", "dockerfilePath": "/deploy/Dockerfile" } }',
      'deploy/Dockerfile': 'FROM node:22\n',
    },
    says: [
      {
        file: 'railway.toml',
        rank: PLATFORM,
        packages: ['ffmpeg'],
        commands: ['build: npm run build railway.toml:3', 'start: node server.js railway.toml:7'],
      },
      { file: 'railway.json', rank: PLATFORM, bases: ['deploy/Dockerfile in . railway.json:1'] },
    ],
    notes: [
      /^railway\.toml:8: deploy\.preDeployCommand is not used: it runs before a deployment/,
      /^railway\.toml:9: deploy\.healthcheckPath is not used: AgentPod does not deploy/,
    ],
  },
  {
    name: 'fly.toml',
    files: {
      'fly.toml': `app = "shop"
[build]
dockerfile = "Dockerfile.fly"
[build.args]
NODE = "22"
[env]
LOG = "debug"
[http_service]
internal_port = 8080
[[services]]
internal_port = 9090
[processes]
app = "node server.js"
worker = "node worker.js"
[deploy]
release_command = "npm run migrate"
`,
      'Dockerfile.fly': 'ARG NODE\nFROM node:$NODE\n',
    },
    says: [
      {
        file: 'fly.toml',
        rank: PLATFORM,
        bases: ['Dockerfile.fly in . fly.toml:3'],
        commands: ['start: node server.js fly.toml:13'],
        ports: ['8080', '9090'],
        variables: ['LOG=debug'],
      },
    ],
    notes: [
      /^fly\.toml:14: processes\.worker is not used: it is not started/,
      /^fly\.toml:1: app is not used/,
      /^fly\.toml:16: deploy\.release_command is not used: it runs before a deployment/,
    ],
  },
  {
    name: 'e2b.toml',
    files: {
      'e2b.toml':
        'template_id = "abc"\ndockerfile = "e2b.Dockerfile"\nstart_cmd = "python app.py"\nready_cmd = "curl -f localhost:80"\ncpu_count = 2\n',
      'e2b.Dockerfile': 'FROM debian:12\n',
    },
    says: [
      {
        file: 'e2b.toml',
        rank: PLATFORM,
        bases: ['e2b.Dockerfile in . e2b.toml:2'],
        processes: ['e2b-start|python app.py|curl -f localhost:80'],
      },
    ],
    notes: [/^e2b\.toml:1: template_id is not used/, /^e2b\.toml:5: cpu_count is not used: write cpus under/],
  },
  {
    name: 'devbox.json with a list of packages',
    files: {
      'devbox.json': `{
  // comments are allowed
  "packages": ["nodejs@20", "python@3.11.4", "postgresql@15", "ripgrep@latest", "zellij@0.4"],
  "env": { "A": "b" },
  "shell": { "init_hook": ["echo hello", "npm run hook"], "scripts": { "test": ["npm run lint", "npm test"], "deploy": "x" } },
  "include": ["github:a/b"],
}`,
    },
    says: [
      {
        file: 'devbox.json',
        rank: PLATFORM,
        versions: ['node 20 devbox.json:3', 'python 3.11.4 devbox.json:3'],
        packages: ['ripgrep'],
        start: ['echo hello\nnpm run hook'],
        commands: ['test: npm run lint\nnpm test devbox.json:5'],
        services: ['postgres 15'],
        variables: ['A=b'],
      },
    ],
    notes: [
      /^devbox\.json:3: the Nix package zellij@0\.4 is not used/,
      /^devbox\.json:6: include is not used/,
    ],
  },
  {
    name: 'devbox.json with a table of packages',
    files: { 'devbox.json': '{"packages":{"go":"1.22","jq":{"version":"latest"}}}' },
    says: [{ file: 'devbox.json', rank: PLATFORM, versions: ['go 1.22 devbox.json:1'], packages: ['jq'] }],
  },
  {
    name: 'mise.toml with tools, variables and tasks',
    files: {
      'mise.toml': `[tools]
node = "22"
"npm:prettier" = "3.3.3"
"pipx:ruff" = "latest"
"cargo:just" = "1.40.0"
"ubi:owner/tool" = "1"
shellcheck = "0.10"
[env]
MODE = "test"
PATHS = "{{config_root}}/x"
_.path = ["./bin", "/etc"]
_.file = ".env"
[tasks]
dev = "npm run dev"
[tasks.test]
depends = ["build"]
run = ["npm run lint", "npm test"]
dir = "web"
[tasks.build]
run = "npm run build"
env = { CI = "1" }
[tasks.start]
depends = ["start"]
run = "x"
`,
    },
    says: [
      {
        file: 'mise.toml',
        rank: 'version file',
        versions: ['node 22 mise.toml:2'],
        packages: ['shellcheck'],
        extra: ['npm prettier@3.3.3', 'pip ruff', 'cargo just@1.40.0'],
        commands: [
          'dev: npm run dev mise.toml:14',
          'test: set -e\n(\nexport CI=1\nnpm run build\n)\nOR_EXIT\n(\ncd ./web || exit\nset -e\nnpm run lint\nOR_EXIT\nnpm test\nOR_EXIT\n)\nOR_EXIT mise.toml:15',
          'build: (\nexport CI=1\nnpm run build\n) mise.toml:19',
        ],
        variables: ['MODE=test'],
        path: ['$WORKSPACE/bin'],
      },
    ],
    notes: [
      /^mise\.toml:6: the tool ubi:owner\/tool is not used: AgentPod has no source for it/,
      /^mise\.toml:10: env\.PATHS is not used: its value is computed/,
      /^mise\.toml:11: env\._\.path is not used: it is not a directory of the project/,
      /^mise\.toml:12: env\._\.file is not used: files of variables are not read/,
      /^mise\.toml:22: tasks\.start is not used: the task start depends on itself/,
    ],
  },
  {
    name: 'files of mise tasks, and .tool-versions',
    files: {
      'mise-tasks/test': '#!/usr/bin/env bash\n#MISE depends=["build"]\nnpm test\n',
      'mise-tasks/deploy/all': 'x',
      '.tool-versions': '# tools\nnodejs 20.11.0\njq 1.7\nterraform 1.5\n',
    },
    says: [
      {
        file: 'mise-tasks/test',
        rank: 'version file',
        commands: ['test: bash ./mise-tasks/test mise-tasks/test:1'],
      },
      {
        file: '.tool-versions',
        rank: 'version file',
        versions: ['node 20.11.0 .tool-versions:2'],
        packages: ['jq'],
      },
    ],
    notes: [
      /^mise-tasks\/test:2: #MISE depends=\["build"\] is not used/,
      /^\.tool-versions:4: the tool terraform is not used/,
    ],
  },
  {
    name: 'tasks of mise that are files, scripts of other programs, or lists of tasks',
    files: {
      'mise.toml': `[tasks.test]
file = "scripts/test.ts"
dir = "web"
depends = { task = "lint" }
[tasks.lint]
run = [{ task = "one" }, { tasks = ["two", "one"] }]
shell = "fish -c"
[tasks]
one = "echo 1"
two = """#!/usr/bin/env python3
print(2)"""
[tasks.build]
file = "missing.sh"
[tasks.dev]
run = ["echo before", { task = "nothing" }]
[tasks.start]
depends = [{ task = "one", args = ["x"] }]
[tasks.setup]
file = "scripts/strange"
`,
      'scripts/test.ts': '#!/usr/bin/env -S node --import=tsx\n',
      'scripts/strange': '#!/bin/sh -c "$(x)"\n',
    },
    says: [
      {
        file: 'mise.toml',
        rank: 'version file',
        commands: [
          "test: set -e\necho 1\nOR_EXIT\npython3 -c '#!/usr/bin/env python3\nprint(2)'\nOR_EXIT\necho 1\nOR_EXIT\n(\ncd ./web || exit\nnode --import=tsx ../scripts/test.ts\n)\nOR_EXIT mise.toml:1",
          "lint: set -e\necho 1\nOR_EXIT\npython3 -c '#!/usr/bin/env python3\nprint(2)'\nOR_EXIT\necho 1\nOR_EXIT mise.toml:5",
        ],
      },
    ],
    notes: [
      /^mise\.toml:\d+: tasks\.setup is not used: the first line of scripts\/strange names no plain program/,
      /^mise\.toml:\d+: tasks\.dev is not used: there is no task nothing/,
      /^mise\.toml:7: tasks\.lint\.shell is not used: options of tasks/,
      /^mise\.toml:\d+: tasks\.build is not used: the project has no file missing\.sh/,
      /^mise\.toml:\d+: tasks\.start is not used: depends of the task start is not a list of names/,
    ],
  },
  {
    name: 'flake.nix and shell.nix',
    files: {
      'flake.nix': '{\n  outputs = { nixpkgs, ... }: import ./x;\n}\n',
      'shell.nix':
        '{ pkgs }:\npkgs.mkShell {\n  buildInputs = with pkgs; [ python311 gnumake ];\n  shellHook = "x";\n}\n',
    },
    says: [
      { file: 'flake.nix', rank: PLATFORM },
      { file: 'shell.nix', rank: PLATFORM, versions: ['python 3.11 shell.nix:3'], packages: ['make'] },
    ],
    notes: [
      /^flake\.nix is not used: it has no plain list of packages, and AgentPod does not evaluate Nix files/,
      /^shell\.nix:4: shellHook is not used/,
    ],
  },
  {
    name: 'vercel.json',
    files: {
      'vercel.json':
        '{\n"installCommand": "pnpm i",\n"buildCommand": "pnpm build",\n"devCommand": null,\n"framework": "vite",\n"outputDirectory": 3 }',
    },
    says: [
      {
        file: 'vercel.json',
        rank: PLATFORM,
        setup: ['pnpm i vercel.json:2'],
        commands: ['build: pnpm build vercel.json:3'],
      },
    ],
    notes: [/^vercel\.json:5: framework is not used/, /^vercel\.json:6: outputDirectory is not used/],
  },
  {
    name: 'app.json of Heroku, and a Procfile',
    files: {
      'app.json': `{
  "name": "shop",
  "buildpacks": [{ "url": "heroku/nodejs" }, { "url": "https://example.com/x" }],
  "env": { "A": "b", "KEY": { "generator": "secret" }, "NEEDED": { "required": true }, "FREE": { "required": false } },
  "addons": ["heroku-postgresql:mini", { "plan": "heroku-redis:mini" }, "papertrail"],
  "environments": { "test": { "scripts": { "test-setup": "npm run seed", "test": "npm test" } } }
}`,
      Procfile: '# x\nrelease: rake db:migrate\r\nweb: gunicorn app:app -b :$PORT\r\nworker: celery\n',
    },
    says: [
      {
        file: 'app.json',
        rank: PLATFORM,
        versions: ['node * app.json:3'],
        commands: ['test: npm run seed\nnpm test app.json:6'],
        services: ['postgres', 'redis'],
        variables: ['A=b'],
      },
      {
        file: 'Procfile',
        rank: PLATFORM,
        commands: [`start: export PORT="\${PORT:-5000}"; gunicorn app:app -b :$PORT Procfile:3`],
        ports: ['5000'],
      },
    ],
    notes: [
      /^app\.json:3: buildpacks\[2\]\.url is not used: AgentPod runs no buildpacks/,
      /^app\.json:4: env\.KEY is not used: Heroku generates its value/,
      /^app\.json:4: env\.NEEDED is not used: it has no value/,
      /^app\.json:5: addons\[3\] is not used/,
      /^app\.json:2: name is not used/,
      /^Procfile:2: release is not used: it runs before a deployment/,
      /^Procfile:4: worker is not used: it is not started/,
    ],
  },
  {
    name: 'app.json of Expo is not Heroku’s',
    files: { 'app.json': '{"expo":{"name":"x"},"env":{}}' },
    says: [],
  },
  {
    name: 'app.json of React Native is not Heroku’s',
    files: { 'app.json': '{"name":"x","displayName":"X"}' },
    says: [],
  },
  {
    name: '.cursor/environment.json',
    files: {
      '.cursor/environment.json': `{
  // ours
  "build": { "dockerfile": "Dockerfile", "context": ".." },
  "install": "sudo apt-get install -y libpq-dev && npm ci",
  "start": "npm run db",
  "terminals": [{ "name": "Dev server", "command": "npm run dev -- --port 3000" }],
  "ports": [{ "name": "web", "port": 3000 }, { "port": 0 }],
  "snapshot": "abc",
}`,
      '.cursor/Dockerfile': 'FROM debian:12\n',
    },
    says: [
      {
        file: '.cursor/environment.json',
        rank: 'agent file',
        bases: ['.cursor/Dockerfile in . .cursor/environment.json:3'],
        packages: ['libpq-dev'],
        setup: ['sudo apt-get install -y libpq-dev && npm ci .cursor/environment.json:4'],
        processes: ['cursor-start|npm run db|', 'cursor-dev-server|npm run dev -- --port 3000|3000'],
        ports: ['3000 web'],
      },
    ],
    notes: [/ports\[2\] is not used: it is not a port/, /snapshot is not used: only the servers of Cursor/],
  },
  {
    name: 'copilot-setup-steps.yml',
    files: {
      '.github/workflows/copilot-setup-steps.yml': `jobs:
  copilot-setup-steps:
    steps:
      - uses: actions/checkout@v4
      - uses: example/magic@v1
      - run: npm ci
      - run: pip install -r requirements.txt
        working-directory: ./api
      - run: echo \${{ secrets.X }}
`,
    },
    says: [
      {
        file: '.github/workflows/copilot-setup-steps.yml',
        rank: 'agent file',
        setup: [
          'npm ci .github/workflows/copilot-setup-steps.yml:6',
          'pip install -r requirements.txt in api .github/workflows/copilot-setup-steps.yml:7',
        ],
      },
    ],
    notes: [
      /:5: example\/magic is not used: AgentPod runs no actions/,
      /:9: echo .* is not used: it is computed/,
    ],
  },
]

describe('files of other platforms', () => {
  for (const [file, text, note] of [
    ['vercel.json', '{\n"env": {"A": "@secret"}}', /^vercel\.json:2: A is not used: it refers to a secret/],
    ['mise.toml', '[tools]\npython = ["3.11", "3.12"]\n', /^mise\.toml:2: .*only the first version/],
    ['devbox.json', '{"shell": {"init_hook": ["export A=1"]}}', /^devbox\.json:1: what init_hook exports/],
    ['fly.toml', '[env]\nA = [\n', / in line 3, column 1$/],
  ] as const)
    test(`FMT-2 ${file} notes what it does not honour: ${note.source}`, () => {
      const [found] = detectFormats(memoryTree({ [file]: text }))
      assert.match(found?.notes.join('\n') ?? '', note)
      assert.deepEqual(found?.variables, [])
    })

  for (const { name, files, says, notes = [] } of ROWS)
    test(`FMT-2 ${name}`, () => {
      const found = detectFormats(memoryTree(files))
      assert.deepEqual(found.map(shortForm), says)
      const all = found.flatMap((one) => one.notes)
      assert.equal(all.length, notes.length, all.join('\n'))
      for (const [at, note] of notes.entries()) assert.match(all[at] ?? '', note)
    })

  const MALFORMED: Readonly<Record<string, string>> = {
    '.gitpod.yml': 'tasks: [\n',
    '.replit': 'run = \n',
    'nixpacks.toml': '[phases\n',
    'railpack.json': '{ "steps" }',
    'railway.toml': '=\n',
    'railway.json': '[',
    'fly.toml': '[[\n',
    'e2b.toml': 'x',
    'devbox.json': '{',
    'mise.toml': '[tools\n',
    'vercel.json': '{"a":',
    'app.json': '{{',
    '.cursor/environment.json': '{ "install" }',
  }
  for (const [file, text] of Object.entries(MALFORMED))
    test(`FMT-2 a malformed ${file} is named and nothing of it is used`, () => {
      const [found, ...others] = detectFormats(memoryTree({ [file]: text }))
      assert.deepEqual(others, [])
      assert.ok(found)
      assert.deepEqual(shortForm(found), { file, rank: found.rank })
      assert.equal(found.notes.length, 1)
      assert.match(found.notes[0] ?? '', /is malformed and was not used: ./)
    })

  test('FMT-2 a file that is too long is named and not parsed', () => {
    const [found] = detectFormats(memoryTree({ '.gitpod.yml': `tasks: [${'x, '.repeat(60_000)}]` }))
    assert.match(found?.notes[0] ?? '', /is malformed and was not used: it is longer than/)
  })

  test('FMT-2 an alias that stands for millions is refused', () => {
    const lines = Array.from(
      { length: 20 },
      (_, n) => `b${n}: &b${n} [${n === 0 ? 'x, x' : `*b${n - 1}, *b${n - 1}`}]`,
    )
    const [found] = detectFormats(memoryTree({ '.gitpod.yml': `${lines.join('\n')}\ntasks: *b19\n` }))
    assert.match(found?.notes[0] ?? '', /is malformed and was not used/)
    assert.deepEqual(found?.setup, [])
  })

  test('FMT-2 SECURITY: many aliases of different values are refused at once, and some are read', () => {
    const file = (count: number): string =>
      `tasks: [{ command: x }]\nx: [${Array.from({ length: count }, (_, n) => `&a${n} b, *a${n}`).join(', ')}]\n`
    const began = performance.now()
    const [found] = detectFormats(memoryTree({ '.gitpod.yml': file(7000) }))
    assert.ok(performance.now() - began < 4000)
    assert.match(found?.notes[0] ?? '', /is malformed and was not used: it has more than 100 aliases/)
    const [control] = detectFormats(memoryTree({ '.gitpod.yml': file(90) }))
    assert.equal(control?.commands.dev?.[0]?.run, 'x')
  })

  const CUT: readonly (readonly [file: string, text: string, note: RegExp])[] = [
    [
      '.gitpod.yml',
      `tasks:\n${'  - command: x\n'.repeat(21)}`,
      /^\.gitpod\.yml:22: tasks\[21\] is not used: the list has more than 20/,
    ],
    [
      '.gitpod.yml',
      `ports:\n${'  - port: 80\n'.repeat(41)}`,
      /^\.gitpod\.yml:42: ports\[41\] is not used: the list has more than 40/,
    ],
    [
      'Procfile',
      `web: ${'x'.repeat(9000)}\n`,
      /^Procfile:1: web: x+\.\.\. is not used: a line is a name, a colon and a command of at most/,
    ],
    ['Procfile', 'web\n', /^Procfile:1: web is not used: a line is a name/],
    [
      'Procfile',
      'a: b\n'.repeat(5000),
      /^Procfile is not used: it is not a text of at most 20000 characters/,
    ],
    [
      'nixpacks.toml',
      '[variables]\nNIXPACKS_BUN_VERSION = "$(x)"\n',
      /NIXPACKS_BUN_VERSION is not used: it is not a version/,
    ],
    ['.tool-versions', 'jq 1\n'.repeat(101), /^\.tool-versions:101: the lines from here on are not used/],
    [
      'shell.nix',
      `buildInputs = [\n${'jq\n'.repeat(101)}];\n`,
      /^shell\.nix:102: the packages after the first 100 are not used/,
    ],
    [
      'devbox.json',
      JSON.stringify({ packages: Array.from({ length: 101 }, () => 'jq') }),
      /packages\[101\] is not used: the list has more than 100/,
    ],
  ]
  for (const [at, [file, text, note]] of CUT.entries())
    test(`FMT-2 a limit of ${file} is noted (${at + 1})`, () => {
      const notes = detectFormats(memoryTree({ [file]: text })).flatMap((one) => one.notes)
      assert.ok(
        notes.some((one) => note.test(one)),
        notes.join('\n'),
      )
    })

  test('FMT-2 nixpacks chooses a version of Bun, and a long line of a Procfile is used', () => {
    const long = `run ${'x'.repeat(2000)}`
    const found = detectFormats(
      memoryTree({
        'nixpacks.toml': '[variables]\nNIXPACKS_BUN_VERSION = "1.2"\n',
        Procfile: `web: ${long}\n`,
      }),
    )
    assert.deepEqual(
      found.flatMap(({ versions }) => versions.map(({ language, value }) => `${language} ${value}`)),
      ['bun 1.2'],
    )
    assert.deepEqual(
      found.flatMap(({ commands }) => commands.start?.map(({ run }) => run) ?? []),
      [long],
    )
  })

  test('FMT-2 SECURITY: a task that many others depend on runs once, and a task has a limit', () => {
    const levels = Array.from({ length: 15 }, (_, n) => n)
    const shared = levels.map(
      (n) => `[tasks.a${n}]\ndepends = ["a${n + 1}", "b${n + 1}"]\nrun = "echo a${n}"\n`,
    )
    const again = levels.map(
      (n) => `[tasks.b${n}]\ndepends = ["a${n + 1}", "b${n + 1}"]\nrun = "echo b${n}"\n`,
    )
    const ends = '[tasks.a15]\nrun = "echo a15"\n[tasks.b15]\nrun = "echo b15"\n'
    const listed = levels.map(
      (n) => `[tasks.c${n}]\nrun = [{ task = "c${n + 1}" }, { task = "c${n + 1}" }]\n`,
    )
    const text = `[tasks.test]\ndepends = "a1"\n[tasks.build]\ndepends = "c1"\n[tasks.c15]\nrun = "x"\n`
    const began = performance.now()
    const [found] = detectFormats(
      memoryTree({ 'mise.toml': [text, ...shared, ...again, ends, ...listed].join('') }),
    )
    assert.ok(performance.now() - began < 2000)
    const echoes = found?.commands.test?.[0]?.run.match(/^echo .*$/gm) ?? []
    assert.equal(echoes.length, 29)
    assert.equal(new Set(echoes).size, 29)
    assert.equal(echoes.at(-1), 'echo a1')
    assert.equal(found?.commands.build, undefined)
    assert.deepEqual(found?.notes, ['mise.toml:3: tasks.build is not used: it runs more than 100 tasks'])
  })
})
