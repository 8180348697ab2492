import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectShellScripts } from './shell-scripts.ts'

describe('shell', () => {
  testDetector(detectShellScripts, [
    { name: 'nothing is found where there is nothing', files: { 'README.md': '' }, finds: [] },
    {
      name: 'scripts with tests and a linter',
      files: {
        'install.sh': '#!/bin/bash\n',
        'lib/a.sh': '',
        'test/a.bats': '',
        'test/deep/b.bats': '',
        '.shellcheckrc': '',
      },
      finds: [
        {
          language: 'shell',
          seen: 'install.sh:1',
          test: 'bats test test/deep',
          lint: 'shellcheck *.sh lib/*.sh',
          packages: ['bats', 'shellcheck'],
        },
      ],
    },
    {
      name: 'a task runner knows better',
      files: { 'a.sh': '', 'test/a.bats': '', Makefile: 'test:\n\tbats test\n', justfile: 'lint:\n  x\n' },
      finds: [{ test: 'make test', lint: 'just lint', tools: ['just'], packages: ['make', 'bats'] }],
    },
    {
      name: 'a task runner alone is enough',
      files: { Makefile: 'build:\n' },
      finds: [{ build: 'make build', seen: 'Makefile' }],
    },
    {
      name: 'a script that starts',
      files: { 'start.sh': '#!/usr/bin/env zsh\n' },
      finds: [{ start: 'zsh start.sh', packages: ['zsh'] }],
    },
    {
      name: 'scripts of another language are its own matter',
      files: { 'a.sh': '', 'go.mod': 'module x' },
      finds: [],
    },
    {
      name: 'scripts beside C are its own matter',
      files: { 'a.sh': '', Makefile: 'all:\n', 'x.c': '' },
      finds: [],
    },
  ])
})
