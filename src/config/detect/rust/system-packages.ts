/** Crates that wrap system libraries, and the Debian packages of those. */
import { isObject, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { FoundPackage } from '../finding.ts'
import {
  distinctPackages,
  type NamedLibrary,
  packagesFor,
  packagesOf,
  packageTable,
} from '../project-files/debian-packages.ts'
import { evidenceAt, findLine, findLines, linesIn } from '../project-files/find-lines.ts'
import { stringsAt, textAt } from '../project-files/parsed-file.ts'
import { type CargoUnit, type Crate, dependencyTables } from './workspace.ts'

const CRATES = packageTable({
  'openssl-sys': 'libssl-dev pkg-config',
  openssl: 'libssl-dev pkg-config',
  'native-tls': 'libssl-dev pkg-config',
  'openssl-src': 'perl make',
  'libsqlite3-sys': 'libsqlite3-dev pkg-config',
  'pq-sys': 'libpq-dev',
  'mysqlclient-sys': 'default-libmysqlclient-dev pkg-config',
  'rdkafka-sys': 'cmake build-essential libssl-dev zlib1g-dev pkg-config',
  rdkafka: 'cmake build-essential libssl-dev zlib1g-dev pkg-config',
  bindgen: 'libclang-dev clang',
  'clang-sys': 'libclang-dev clang',
  cmake: 'cmake build-essential',
  'aws-lc-sys': 'cmake build-essential',
  'prost-build': 'protobuf-compiler',
  'protobuf-codegen': 'protobuf-compiler',
  'alsa-sys': 'libasound2-dev pkg-config',
  'libpulse-sys': 'libpulse-dev pkg-config',
  'jack-sys': 'libjack-dev pkg-config',
  'libudev-sys': 'libudev-dev pkg-config',
  'libdbus-sys': 'libdbus-1-dev pkg-config',
  'libusb1-sys': 'libusb-1.0-0-dev pkg-config',
  hidapi: 'libudev-dev pkg-config',
  'glib-sys': 'libglib2.0-dev pkg-config',
  'gtk-sys': 'libgtk-3-dev pkg-config',
  'gtk4-sys': 'libgtk-4-dev pkg-config',
  'webkit2gtk-sys': 'libwebkit2gtk-4.1-dev pkg-config',
  'gstreamer-sys': 'libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev pkg-config',
  'yeslogic-fontconfig-sys': 'libfontconfig-dev pkg-config',
  'servo-fontconfig-sys': 'libfontconfig-dev pkg-config',
  'freetype-sys': 'libfreetype-dev cmake pkg-config',
  'x11-dl': 'libx11-dev pkg-config',
  x11: 'libx11-dev pkg-config',
  xcb: 'libxcb1-dev pkg-config',
  'wayland-sys': 'libwayland-dev pkg-config',
  'sdl2-sys': 'libsdl2-dev',
  opencv: 'libopencv-dev libclang-dev clang pkg-config',
  'ffmpeg-sys-next':
    'libavcodec-dev libavformat-dev libavutil-dev libavfilter-dev libavdevice-dev libswscale-dev libswresample-dev libclang-dev pkg-config',
  pcap: 'libpcap-dev',
  'zmq-sys': 'libzmq3-dev pkg-config',
  'librocksdb-sys': 'libclang-dev clang build-essential',
  'tikv-jemalloc-sys': 'make',
  'jemalloc-sys': 'make',
  'krb5-src': 'make bison',
  'libgssapi-sys': 'libkrb5-dev libclang-dev',
  'llvm-sys': 'llvm-dev libclang-dev libpolly-dev',
  'pyo3-ffi': 'python3-dev',
  'tss-esapi-sys': 'libtss2-dev pkg-config',
  'libgit2-sys': 'pkg-config',
  'expat-sys': 'cmake',
  'lua-src': 'make',
  leptess: 'libleptonica-dev libtesseract-dev libclang-dev',
})

/** Features with which a crate uses its bundled library instead of the system's. */
const BUNDLES: ReadonlyMap<string, string> = new Map([
  ['openssl-sys', 'openssl-src'],
  ['openssl', 'openssl-src'],
  ['native-tls', 'openssl-src'],
  ['pq-sys', 'pq-src'],
  ['mysqlclient-sys', 'mysqlclient-src'],
])

/** Cargo's linker is the system's C compiler, whatever the crates. */
export function rustPackages(
  tree: FileTree,
  unit: CargoUnit,
  lockfile: string | undefined,
): readonly FoundPackage[] {
  const linker = packagesOf('gcc libc6-dev', { ...unit.evidence, said: 'cargo needs a linker' })
  const named = [
    ...(lockfile ? lockedCrates(tree, lockfile) : []),
    ...[...unit.crates, ...unit.beside].flatMap((crate) => namedCrates(tree, crate)),
  ]
  const names = new Set(named.map(({ name }) => name))
  const own = new Set([...unit.crates, ...unit.beside].map(({ name }) => name))
  const bundled = unit.crates.some(bundlesSqlite)
  const wanted = named.filter(({ name }) => {
    if (own.has(name) || names.has(BUNDLES.get(name) ?? '')) return false
    return !(name === 'libsqlite3-sys' && bundled)
  })
  return distinctPackages([...linker, ...packagesFor(CRATES, wanted)])
}

/** Thousands of entries of which the names are enough. */
function lockedCrates(tree: FileTree, lockfile: string): readonly NamedLibrary[] {
  return findLines(linesIn(tree, lockfile), /^name = "([^"]*)"/).map(({ match, line }) => ({
    name: match[1] ?? '',
    evidence: evidenceAt(lockfile, line, match[0]),
  }))
}

/** The lockfile may be missing, and features decide what it cannot tell. */
function namedCrates(tree: FileTree, crate: Crate): readonly NamedLibrary[] {
  const tables = dependencyTables(crate.data)
  return tables.flatMap((table) =>
    Object.entries(table).flatMap(([key, value]) => {
      const name = textAt(value, 'package') ?? key
      const implied = impliedBy(name, isObject(value) ? stringsAt(value, 'features') : [])
      if (!CRATES.has(name) && implied === undefined) return []
      const line = findLine(linesIn(tree, crate.file), lineStarting(key))?.line
      return [{ name: implied ?? name, evidence: evidenceAt(crate.file, line, key) }]
    }),
  )
}

function impliedBy(name: string, features: readonly string[]): string | undefined {
  if (name === 'diesel' && features.includes('postgres')) return 'pq-sys'
  if (name === 'diesel' && features.includes('mysql')) return 'mysqlclient-sys'
  if ((name === 'diesel' && features.includes('sqlite')) || name === 'rusqlite') return 'libsqlite3-sys'
  return undefined
}

function lineStarting(key: string): RegExp {
  return new RegExp(`^[ \\t]*"?${RegExp.escape(key)}"?[ \\t]*[.=]`)
}

/** Whether any crate enables the bundled SQLite. */
function bundlesSqlite({ data }: Crate): boolean {
  const tables = [...dependencyTables(data), ...dependencyTables(objectAt(data, 'workspace'))]
  return tables.some((table) =>
    Object.entries(table).some(
      ([key, value]) =>
        /^(?:rusqlite|libsqlite3-sys|sqlx|diesel|tokio-rusqlite)$/.test(key) &&
        (key === 'sqlx' || stringsAt(value, 'features').some((feature) => /^bundled/.test(feature))),
    ),
  )
}
