import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectGo, GO_SETUP } from './detect.ts'

const MODULE = 'module example.com/shop\n\ngo 1.24\n'

describe('Go', () => {
  testDetector(detectGo, [
    { name: 'nothing is found where there is no Go', files: { 'README.md': '' }, finds: [] },
    {
      name: 'a module is what go.mod says',
      files: { 'go.mod': MODULE, 'go.sum': '', 'main.go': 'package main\n' },
      finds: [
        {
          language: 'go',
          seen: 'go.mod:1',
          versions: ['1.24 manifest go.mod:3'],
          manager: 'go',
          lockfile: 'go.sum',
          inputs: ['go.mod', 'go.sum'],
          setup: GO_SETUP,
          test: 'go test ./...',
          build: 'go build ./...',
          lint: 'go vet ./...',
          dev: 'go run .',
          start: 'go run .',
          generated: [],
          presets: ['go'],
          packages: [],
          members: undefined,
        },
      ],
    },
    {
      name: 'the toolchain line is a version file, and so is .go-version',
      files: { 'go.mod': `${MODULE}toolchain go1.24.3\n`, '.go-version': '1.23.1\n' },
      finds: [
        {
          versions: [
            '1.24.3 version file go.mod:4',
            '1.24 manifest go.mod:3',
            '1.23.1 version file .go-version:1',
          ],
        },
      ],
    },
    {
      name: 'a default toolchain says nothing',
      files: { 'go.mod': `${MODULE}toolchain default\n` },
      finds: [{ versions: ['1.24 manifest go.mod:3'] }],
    },
    {
      name: 'files that speak of many languages are asked too',
      files: { 'go.mod': MODULE, '.tool-versions': 'golang 1.22.5\n' },
      finds: [{ versions: ['1.24 manifest go.mod:3', '1.22.5 version file .tool-versions:1'] }],
    },
    {
      name: 'line ends of Windows and a byte order mark change nothing',
      files: { 'go.mod': '\uFEFFmodule example.com/shop\r\n\r\ngo 1.22.1\r\ntoolchain go1.23.4\r\n' },
      finds: [{ seen: 'go.mod:1', versions: ['1.23.4 version file go.mod:4', '1.22.1 manifest go.mod:3'] }],
    },
    {
      name: 'a workspace is one finding, whose patterns name every module',
      files: {
        'go.work': 'go 1.24\n\nuse (\n\t./api // the door\n\t./lib\n\t"./tools"\n)\nuse ../elsewhere\n',
        'go.work.sum': '',
        'api/go.mod': MODULE,
        'api/go.sum': '',
        'api/main.go': 'package main\n',
        'lib/go.mod': 'module example.com/lib\n\ngo 1.23\n',
        'tools/go.mod': 'module example.com/tools\n',
        'other/go.mod': 'module example.com/other\n',
      },
      finds: [
        {
          seen: 'go.work:4',
          members: ['api', 'lib', 'tools'],
          lockfile: 'go.work.sum',
          inputs: ['go.work', 'go.work.sum', 'api/go.mod', 'api/go.sum', 'lib/go.mod', 'tools/go.mod'],
          test: 'go test ./api/... ./lib/... ./tools/...',
          build: 'go build ./api/... ./lib/... ./tools/...',
          dev: 'go run ./api',
          versions: ['1.24 manifest go.work:1', '1.24 manifest api/go.mod:3', '1.23 manifest lib/go.mod:3'],
          notes: [/uses a module outside the project/],
        },
        { directory: 'other', members: undefined },
      ],
    },
    {
      name: 'a workspace that uses its own directory covers the others as well',
      files: {
        'go.work': 'go 1.24\nuse .\nuse ./lib\n',
        'go.mod': MODULE,
        'lib/go.mod': 'module example.com/lib\n',
      },
      finds: [{ test: 'go test ./... ./lib/...', members: ['.', 'lib'] }],
    },
    {
      name: 'modules that stand in for others are inputs',
      files: {
        'app/go.mod': `${MODULE}replace example.com/a => ../a\nreplace (\n\texample.com/b v1.0.0 => ../../../b\n\texample.com/c => example.com/d v1.0.0\n)\n`,
        'a/go.mod': 'module example.com/a\n',
      },
      finds: [{ directory: 'a' }, { directory: 'app', inputs: ['app/go.mod', 'a/go.mod'] }],
    },
    {
      name: 'vendored modules need no download',
      files: { 'go.mod': MODULE, 'vendor/modules.txt': '' },
      finds: [{ setup: undefined, notes: [/nothing has to be downloaded/] }],
    },
    {
      name: 'the only program under cmd is run',
      files: { 'go.mod': MODULE, 'cmd/shop/main.go': 'package main\n', 'shop.go': 'package shop\n' },
      finds: [{ dev: 'go run ./cmd/shop' }],
    },
    {
      name: 'of several programs none is chosen',
      files: { 'go.mod': MODULE, 'cmd/a/main.go': 'package main\n', 'cmd/b/main.go': 'package main\n' },
      finds: [{ dev: undefined, start: undefined, notes: [/several programs.*cmd\/a, cmd\/b/] }],
    },
    {
      name: 'a linter that is configured is used, and said to be missing',
      files: { 'go.mod': MODULE, '.golangci.yml': '' },
      finds: [{ lint: 'golangci-lint run', tools: ['golangci-lint'], notes: [/must be installed/] }],
    },
    {
      name: 'modules that hold C need a compiler and their libraries',
      files: {
        'go.mod': `${MODULE}require github.com/mattn/go-sqlite3 v1.14.22\nrequire (\n\tgithub.com/davidbyttow/govips/v2 v2.14.0\n\tgithub.com/mattn/go-sqlite3x v1.0.0\n)\n`,
      },
      finds: [{ packages: ['build-essential', 'libvips-dev', 'pkg-config'] }],
    },
    {
      name: 'modules aside do not count while there are others',
      files: { 'go.mod': MODULE, 'examples/hello/go.mod': MODULE, 'vendor/x/go.mod': MODULE },
      finds: [{ directory: '' }],
    },
    {
      name: 'a program without a module can be run',
      files: { 'main.go': '// hello\npackage main\n' },
      finds: [{ seen: 'main.go:2', dev: 'go run main.go', test: undefined, notes: [/go mod init/] }],
    },
    {
      name: 'a file of that name in another package is no program',
      files: { 'main.go': 'package shop\n' },
      finds: [],
    },
    {
      name: 'a workspace of nothing is not one, and its modules stand alone',
      files: { 'go.work': 'go 1.24\nuse /etc\nuse ./gone\n', 'api/go.mod': MODULE },
      finds: [{ directory: 'api', members: undefined }],
    },
    {
      name: 'names with blanks are quoted',
      files: { 'go.work': 'use "./my api"\n', 'my api/go.mod': MODULE },
      finds: [{ test: "go test './my api/...'" }],
    },
  ])
})
