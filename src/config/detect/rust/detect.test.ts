import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectRust } from './detect.ts'

const PACKAGE = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
const member = (name: string, rest = ''): string => `[package]\nname = "${name}"\nedition = "2021"\n${rest}`
const LIBRARY = '//! Stands for the sources.\n'
const PROGRAM = '//! Stands for the sources.\nfn main() {}\n'
const locked = (...names: string[]): string =>
  names.map((name) => `[[package]]\nname = "${name}"\nversion = "1.0.0"\n`).join('\n')

describe('Rust', () => {
  testDetector(detectRust, [
    {
      name: 'a package that a dependency is called like is cleaned by its version',
      files: { 'Cargo.toml': PACKAGE, 'Cargo.lock': locked('shop', 'shop'), 'src/main.rs': '' },
      finds: [
        {
          setup:
            'cargo fetch --locked && { cargo test --no-run --locked --offline; cargo build --locked --offline; cargo clean --locked --offline -p shop:0.1.0 || rm -rf target; }',
        },
      ],
    },
    { name: 'nothing is found where there is no Rust', files: { 'README.md': '' }, finds: [] },
    {
      name: 'a package with a lockfile is fetched strictly, compiled with stubs, and its own builds go again',
      files: { 'Cargo.toml': PACKAGE, 'Cargo.lock': locked('shop'), 'src/main.rs': 'fn main() { real() }' },
      finds: [
        {
          language: 'rust',
          seen: 'Cargo.toml:2',
          versions: ['>=1.56 range Cargo.toml:4'],
          manager: 'cargo',
          lockfile: 'Cargo.lock',
          inputs: ['Cargo.toml', 'Cargo.lock'],
          stubs: { 'src/main.rs': PROGRAM },
          setup:
            'cargo fetch --locked && { cargo test --no-run --locked --offline; cargo build --locked --offline; cargo clean --locked --offline -p shop || rm -rf target; }',
          test: 'cargo test',
          build: 'cargo build',
          lint: 'cargo check --all-targets',
          dev: 'cargo run',
          start: 'cargo run --release',
          packages: ['gcc', 'libc6-dev'],
          generated: ['target'],
          presets: ['cargo'],
          members: undefined,
        },
      ],
    },
    {
      name: 'without a lockfile nothing is locked, which is said',
      files: { 'Cargo.toml': PACKAGE, 'src/lib.rs': '' },
      finds: [
        {
          setup:
            'cargo fetch && { cargo test --no-run --offline; cargo build --offline; cargo clean --offline -p shop || rm -rf target; }',
          dev: undefined,
          stubs: { 'src/lib.rs': LIBRARY },
          notes: [/no Cargo.lock/],
        },
      ],
    },
    {
      name: 'a toolchain file names the channel',
      files: {
        'Cargo.toml': `${PACKAGE}rust-version = "1.70"\n`,
        'rust-toolchain.toml': '[toolchain]\nchannel = "1.78.0"\ntargets = ["wasm32-wasip1"]\n',
        '.tool-versions': 'rust 1.75.0\n',
      },
      finds: [
        {
          versions: [
            '1.78.0 version file rust-toolchain.toml:2',
            '1.75.0 version file .tool-versions:1',
            '>=1.70 range Cargo.toml:5',
            '>=1.56 range Cargo.toml:4',
          ],
          inputs: ['Cargo.toml', 'rust-toolchain.toml'],
          notes: [/targets wasm32-wasip1/],
        },
      ],
    },
    {
      name: 'the older toolchain file is a bare channel',
      files: { 'Cargo.toml': PACKAGE, 'rust-toolchain': 'nightly-2024-05-01\r\n' },
      finds: [
        { versions: ['nightly-2024-05-01 version file rust-toolchain:1', '>=1.56 range Cargo.toml:4'] },
      ],
    },
    {
      name: 'an edition is a floor',
      files: { 'Cargo.toml': '\uFEFF[package]\r\nname = "a"\r\nedition = "2024"\r\n' },
      finds: [{ versions: ['>=1.85 range Cargo.toml:3'] }],
    },
    {
      name: 'a workspace is one finding with the targets of all its members',
      files: {
        'Cargo.toml':
          '[workspace]\nmembers = ["crates/*"]\nexclude = ["crates/old"]\n[workspace.package]\nrust-version = "1.80"\n',
        'Cargo.lock': locked('app', 'core', 'derive'),
        'crates/app/Cargo.toml': member('app', '[dependencies]\ncore = { path = "../core" }\n'),
        'crates/app/src/main.rs': '',
        'crates/app/tests/it.rs': '',
        'crates/app/tests/more/main.rs': '',
        'crates/app/examples/one.rs': '',
        'crates/core/Cargo.toml': member(
          'core',
          '[[bench]]\nname = "fast"\npath = "speed/fast.rs"\nharness = false\n',
        ),
        'crates/core/src/lib.rs': '',
        'crates/core/build.rs': '',
        'crates/core/speed/fast.rs': '',
        'crates/derive/Cargo.toml': member('derive', '[lib]\nproc-macro = true\npath = "lib.rs"\n'),
        'crates/derive/lib.rs': '',
        'crates/old/Cargo.toml': member('old'),
        'crates/old/src/lib.rs': '',
      },
      finds: [
        {
          seen: 'Cargo.toml:1',
          members: ['app', 'core', 'derive'],
          versions: ['>=1.80 range Cargo.toml:5', '>=1.56 range crates/app/Cargo.toml:3'],
          inputs: [
            'Cargo.toml',
            'crates/app/Cargo.toml',
            'crates/core/Cargo.toml',
            'crates/derive/Cargo.toml',
            'Cargo.lock',
          ],
          stubs: {
            'crates/app/src/main.rs': PROGRAM,
            'crates/app/tests/it.rs': PROGRAM,
            'crates/app/tests/more/main.rs': PROGRAM,
            'crates/app/examples/one.rs': PROGRAM,
            'crates/core/build.rs': PROGRAM,
            'crates/core/speed/fast.rs': PROGRAM,
            'crates/core/src/lib.rs': LIBRARY,
            'crates/derive/lib.rs': LIBRARY,
          },
          test: 'cargo test',
          dev: 'cargo run -p app',
          start: 'cargo run --release -p app',
        },
        { directory: 'crates/old', members: undefined },
      ],
    },
    {
      name: 'a workspace with a package of its own names all of it',
      files: {
        'Cargo.toml': `${PACKAGE}[dependencies]\nhelper = { path = "helper" }\n[workspace]\n`,
        'src/main.rs': '',
        'helper/Cargo.toml': member('helper'),
        'helper/src/lib.rs': '',
      },
      finds: [
        {
          members: ['shop', 'helper'],
          test: 'cargo test --workspace',
          build: 'cargo build --workspace',
          dev: 'cargo run',
          setup:
            'cargo fetch && { cargo test --no-run --workspace --offline; cargo build --workspace --offline; cargo clean --offline -p shop -p helper || rm -rf target; }',
        },
      ],
    },
    {
      name: 'what lies beside a package and is built upon is an input with stubs, and is cleaned if it is locked',
      files: {
        'app/Cargo.toml': `${PACKAGE}[dependencies]\nshared = { path = "../shared" }\n[target.'cfg(windows)'.dependencies]\nwin = { path = "../win" }\n`,
        'app/Cargo.lock': locked('shop', 'shared'),
        'app/src/lib.rs': '',
        'shared/Cargo.toml': member('shared', '[dependencies]\nshop = { path = "../app" }\n'),
        'shared/src/lib.rs': '',
        'win/Cargo.toml': member('win'),
        'win/src/lib.rs': '',
      },
      finds: [
        {
          directory: 'app',
          inputs: ['app/Cargo.toml', 'shared/Cargo.toml', 'win/Cargo.toml', 'app/Cargo.lock'],
          stubs: { 'app/src/lib.rs': LIBRARY, 'shared/src/lib.rs': LIBRARY, 'win/src/lib.rs': LIBRARY },
          generated: ['app/target'],
          setup:
            'cargo fetch --locked && { cargo test --no-run --locked --offline; cargo build --locked --offline; cargo clean --locked --offline -p shop -p shared || rm -rf target; }',
        },
        { directory: 'shared' },
        { directory: 'win' },
      ],
    },
    {
      name: 'members cannot lie outside of the project',
      files: {
        'Cargo.toml': '[workspace]\nmembers = ["../x", "/etc/*", "crates/../../y", "a/**"]\n',
        'a/b/c/Cargo.toml': member('deep', '[dependencies]\nz = { path = "/opt/z" }\n'),
      },
      finds: [
        {
          members: ['deep'],
          notes: [/member outside the project: \.\.\/x/, /depends on a path outside/],
        },
      ],
    },
    {
      name: 'clippy is used where a workflow uses it',
      files: {
        'Cargo.toml': PACKAGE,
        '.github/workflows/ci.yml': 'jobs:\n  a:\n    steps:\n      - run: cargo clippy -- -D warnings\n',
      },
      finds: [{ lint: 'cargo clippy --all-targets' }],
    },
    {
      name: 'clippy is used where it is configured',
      files: { 'Cargo.toml': PACKAGE, 'clippy.toml': '' },
      finds: [{ lint: 'cargo clippy --all-targets' }],
    },
    {
      name: 'several programs need a default',
      files: { 'Cargo.toml': PACKAGE, 'src/bin/a.rs': '', 'src/bin/b/main.rs': '' },
      finds: [{ dev: undefined, stubs: { 'src/bin/a.rs': PROGRAM, 'src/bin/b/main.rs': PROGRAM } }],
    },
    {
      name: 'several programs with a default are run by it',
      files: { 'Cargo.toml': `${PACKAGE}default-run = "b"\n`, 'src/bin/a.rs': '', 'src/bin/b.rs': '' },
      finds: [{ dev: 'cargo run' }],
    },
    {
      name: 'crates that wrap libraries need them, the locked ones too',
      files: { 'Cargo.toml': PACKAGE, 'Cargo.lock': locked('shop', 'openssl-sys', 'bindgen', 'rdkafka-sys') },
      finds: [
        {
          packages: [
            'gcc',
            'libc6-dev',
            'libssl-dev',
            'pkg-config',
            'libclang-dev',
            'clang',
            'cmake',
            'build-essential',
            'zlib1g-dev',
          ],
        },
      ],
    },
    {
      name: 'crates that bring their library along do not need it',
      files: {
        'Cargo.toml': `${PACKAGE}[dependencies]\nrusqlite = { version = "0.31", features = ["bundled"] }\n`,
        'Cargo.lock': locked('shop', 'libsqlite3-sys', 'openssl-sys', 'openssl-src'),
      },
      finds: [{ packages: ['gcc', 'libc6-dev', 'perl', 'make'] }],
    },
    {
      name: 'features say which library, without a lockfile too',
      files: {
        'Cargo.toml': `${PACKAGE}[dependencies]\ndiesel = { version = "2", features = ["postgres"] }\nrusqlite = "0.31"\n`,
      },
      finds: [{ packages: ['gcc', 'libc6-dev', 'libpq-dev', 'libsqlite3-dev', 'pkg-config'] }],
    },
    {
      name: 'crates from git repositories name their hosts',
      files: {
        'Cargo.toml': PACKAGE,
        'Cargo.lock': '[[package]]\nname = "x"\nsource = "git+https://git.example.com/x?rev=1#abc"\n',
      },
      finds: [{ notes: [/git\.example\.com: allow that host/] }],
    },
    {
      name: 'a directory for builds that is configured is the one that is made',
      files: {
        'a/Cargo.toml': PACKAGE,
        '.cargo/config.toml': '[build]\ntarget-dir = "out/rust"\ntarget = "wasm32-unknown-unknown"\n',
      },
      finds: [
        {
          directory: 'a',
          generated: ['out/rust'],
          inputs: ['a/Cargo.toml', '.cargo/config.toml'],
          setup:
            'cargo fetch && { cargo test --no-run --offline; cargo build --offline; cargo clean --offline -p shop || rm -rf ../out/rust; }',
          notes: [/wasm32-unknown-unknown/],
        },
      ],
    },
    {
      name: 'vendored crates need no setup',
      files: { 'Cargo.toml': PACKAGE, '.cargo/config.toml': '[source.vendored]\ndirectory = "vendor"\n' },
      finds: [{ setup: undefined, notes: [/vendored/] }],
    },
    {
      name: 'what cargo-fuzz put there does not count',
      files: {
        'Cargo.toml': PACKAGE,
        'fuzz/Cargo.toml': '[package]\nname = "f"\n[package.metadata]\ncargo-fuzz = true\n[workspace]\n',
      },
      finds: [{ directory: '' }],
    },
    {
      name: 'a malformed manifest is a note, and the language is known all the same',
      files: { 'Cargo.toml': '[package\nname = "x"\n' },
      finds: [{ language: 'rust', test: 'cargo test', notes: [/Cargo\.toml is malformed/] }],
    },
    {
      name: 'a name that is no name stays off the command line',
      files: { 'Cargo.toml': '[package]\nname = "$(reboot)"\n', 'src/main.rs': '' },
      finds: [
        {
          setup: 'cargo fetch && { cargo test --no-run --offline; cargo build --offline; rm -rf target; }',
          dev: undefined,
        },
      ],
    },
  ])

  test('manifests that build upon each other in a circle are each read once', () => {
    const files: Record<string, string> = { 'Cargo.toml': '[workspace]\nmembers = ["a", "b"]\n' }
    files['a/Cargo.toml'] = member('a', '[dependencies]\nb = { path = "../b" }\n')
    files['b/Cargo.toml'] = member('b', '[dependencies]\na = { path = "../a" }\n')
    assert.deepEqual(detectRust(memoryTree(files))[0]?.members, ['a', 'b'])
  })
})
