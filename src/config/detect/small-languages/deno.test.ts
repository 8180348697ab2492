import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectDeno } from './deno.ts'

describe('Deno', () => {
  testDetector(detectDeno, [
    { name: 'nothing is found where there is no Deno', files: { 'main.ts': '' }, finds: [] },
    {
      name: 'tasks are commands, and imports say whose hosts are needed',
      files: {
        'deno.jsonc':
          '{\n  // ours\n  "tasks": {\n    "dev": "deno run --watch main.ts",\n    "start": { "command": "deno run main.ts" },\n  },\n  "imports": { "a": "npm:chalk@5", "b": "jsr:@std/path", "c": "https://example.com/mod.ts" },\n}\n',
        'deno.lock': '{"version":"4"}',
        '.dvmrc': 'v2.1.4\n',
        'main.ts': '',
      },
      finds: [
        {
          language: 'deno',
          versions: ['2.1.4 version file .dvmrc:1'],
          manager: 'deno',
          lockfile: 'deno.lock',
          inputs: ['deno.jsonc', 'deno.lock'],
          setup: 'deno install --frozen',
          dev: 'deno task dev',
          start: 'deno task start',
          test: 'deno test -A',
          lint: 'deno lint',
          build: undefined,
          presets: ['npm'],
          generated: [],
          notes: [/JSR/, /imported by URL/],
        },
      ],
    },
    {
      name: 'without tasks the main file is run',
      files: {
        'deno.json': '\uFEFF{"nodeModulesDir":"auto","vendor":true,"lock":false}',
        'main.ts': '',
        'deno.lock': '{}',
      },
      finds: [
        {
          dev: 'deno run -A main.ts',
          setup: 'deno install',
          lockfile: undefined,
          presets: [],
          generated: ['node_modules', 'vendor'],
          notes: [/no deno\.lock/],
        },
      ],
    },
    {
      name: 'what is locked says whose hosts are needed as well',
      files: { 'deno.json': '{}', 'deno.lock': '{"npm":{},"remote":{}}' },
      finds: [{ presets: ['npm'], notes: [/imported by URL/] }],
    },
    {
      name: 'members of a workspace are not findings of their own',
      files: {
        'deno.json': '{"workspace":["./a","libs/*","../../out"]}',
        'a/deno.json': '{"name":"@example/a","imports":{"x":"npm:x"}}',
        'libs/b/deno.json': '{}',
        'c/deno.json': '{}',
      },
      finds: [
        {
          members: ['@example/a', 'libs/b'],
          inputs: ['deno.json', 'a/deno.json', 'libs/b/deno.json'],
          presets: ['npm'],
        },
        { directory: 'c' },
      ],
    },
    {
      name: 'a malformed configuration is a note',
      files: { 'deno.json': '{"tasks": ' },
      finds: [{ test: 'deno test -A', notes: [/deno\.json is malformed/] }],
    },
  ])
})
