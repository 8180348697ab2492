import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidencePlace } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectTasks } from './task-runners.ts'

interface Row {
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  readonly directory?: string
  /** `make test Makefile:3` */
  readonly finds: Readonly<Record<string, string>>
}

const ROWS: readonly Row[] = [
  { name: 'nothing without a task runner', files: { 'package.json': '{"scripts":{"test":"x"}}' }, finds: {} },
  {
    name: 'targets of Make',
    files: {
      Makefile:
        '# test: no\nTEST := 1\nbuild:=x\n.PHONY: test lint\ntest lint: deps ## runs them\n\t@echo test: $@\nrun::\ndev:\nVAR=a:b\nsetup: ; true\n',
    },
    finds: {
      test: 'make test Makefile:5',
      lint: 'make lint Makefile:5',
      start: 'make run Makefile:7',
      dev: 'make dev Makefile:8',
      setup: 'make setup Makefile:10',
    },
  },
  {
    name: 'an install that copies into the system sets nothing up',
    files: { Makefile: 'install: all\n\tinstall -m 755 x $(DESTDIR)$(PREFIX)/bin\n' },
    finds: {},
  },
  {
    name: 'an install that fetches does',
    files: { Makefile: 'install:\n\tpip install -r requirements.txt\nother:\n\tcp x $(DESTDIR)\n' },
    finds: { setup: 'make install Makefile:1' },
  },
  {
    name: 'a check where there is no test',
    files: { GNUmakefile: 'check:\n' },
    finds: { test: 'make check GNUmakefile:1' },
  },
  {
    name: 'recipes of just that need no argument',
    files: {
      justfile:
        "set shell := ['bash', '-c']\nalias t := test\n[group('x')]\n@test *args:\n  cargo test\nbuild target:\n  x\nrun port='80':\n  x\n",
    },
    finds: { test: 'just test justfile:4', start: 'just run justfile:8' },
  },
  {
    name: 'tasks of Task that are not internal',
    files: {
      'Taskfile.yml':
        "version: '3'\ntasks:\n  test:\n    cmds: [go test]\n  build:\n    internal: true\n  __proto__:\n    cmds: []\n  lint: golangci-lint run\n",
    },
    finds: { test: 'task test Taskfile.yml:4', lint: 'task lint Taskfile.yml:9' },
  },
  {
    name: 'Make before just before Task',
    files: {
      Makefile: 'test:\n',
      justfile: 'test:\nlint:\n',
      'Taskfile.yml': 'tasks:\n  lint: x\n  dev: x\n',
    },
    finds: { test: 'make test Makefile:1', lint: 'just lint justfile:2', dev: 'task dev Taskfile.yml:3' },
  },
  {
    name: 'the directory that is asked for',
    files: { 'a/Makefile': 'test:\n' },
    directory: 'a',
    finds: { test: 'make test a/Makefile:1' },
  },
  {
    name: 'line ends of Windows',
    files: { Makefile: '\uFEFFtest:\r\n\tx\r\nlint:\r\n' },
    finds: { test: 'make test Makefile:1', lint: 'make lint Makefile:3' },
  },
  { name: 'a malformed Taskfile has no tasks', files: { 'Taskfile.yml': 'tasks: [\n  test: {' }, finds: {} },
]

describe('what task runners offer:', () => {
  for (const { name, files, directory = '', finds } of ROWS)
    test(name, () => {
      const found = Object.entries(detectTasks(memoryTree(files), directory))
      assert.deepEqual(
        Object.fromEntries(
          found.map(([verb, { run, evidence }]) => [verb, `${run} ${evidencePlace(evidence)}`]),
        ),
        finds,
      )
    })
})
