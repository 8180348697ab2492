/**
 * Go modules with C code, and the packages that it needs. Sources are not searched for `import "C"`: there
 * are too many.
 */

import type { FoundPackage } from '../finding.ts'
import { distinctPackages, type NamedLibrary, packagesOf } from '../project-files/debian-packages.ts'

/** By the prefix of a module path; each also gets a compiler. */
const MODULES: readonly (readonly [path: string, packages: string])[] = [
  ['github.com/mattn/go-sqlite3', ''],
  ['github.com/mutecomm/go-sqlcipher', 'libssl-dev'],
  ['github.com/confluentinc/confluent-kafka-go', ''],
  ['gopkg.in/confluentinc/confluent-kafka-go.v1', ''],
  ['github.com/marcboeker/go-duckdb', ''],
  ['github.com/duckdb/duckdb-go', ''],
  ['github.com/tree-sitter/go-tree-sitter', ''],
  ['github.com/smacker/go-tree-sitter', ''],
  ['github.com/bytecodealliance/wasmtime-go', ''],
  ['github.com/valyala/gozstd', ''],
  ['github.com/DataDog/zstd', ''],
  ['github.com/chai2010/webp', ''],
  ['github.com/godror/godror', ''],
  ['github.com/ethereum/go-ethereum', ''],
  ['github.com/supranational/blst', ''],
  ['github.com/google/gopacket', 'libpcap-dev'],
  ['github.com/gopacket/gopacket', 'libpcap-dev'],
  ['github.com/h2non/bimg', 'libvips-dev pkg-config'],
  ['github.com/davidbyttow/govips', 'libvips-dev pkg-config'],
  ['github.com/cshum/vipsgen', 'libvips-dev pkg-config'],
  ['gopkg.in/gographics/imagick', 'libmagickwand-dev pkg-config'],
  ['github.com/pebbe/zmq4', 'libzmq3-dev pkg-config'],
  ['github.com/libgit2/git2go', 'libgit2-dev pkg-config'],
  ['github.com/linxGnu/grocksdb', 'librocksdb-dev'],
  ['github.com/tecbot/gorocksdb', 'librocksdb-dev'],
  ['github.com/bmatsuo/lmdb-go', 'liblmdb-dev'],
  ['github.com/proglottis/gpgme', 'libgpgme-dev pkg-config'],
  ['github.com/containers/image', 'libgpgme-dev pkg-config'],
  ['github.com/containers/storage', 'libbtrfs-dev libdevmapper-dev pkg-config'],
  ['github.com/hajimehoshi/ebiten', 'libgl1-mesa-dev xorg-dev libasound2-dev pkg-config'],
  ['github.com/ebitengine/oto', 'libasound2-dev pkg-config'],
  ['github.com/go-gl', 'libgl1-mesa-dev xorg-dev'],
  ['fyne.io/fyne', 'libgl1-mesa-dev xorg-dev'],
  [
    'gioui.org',
    'libwayland-dev libx11-dev libx11-xcb-dev libxkbcommon-x11-dev libgles2-mesa-dev libegl1-mesa-dev libxcursor-dev libvulkan-dev pkg-config',
  ],
  ['github.com/veandco/go-sdl2', 'libsdl2-dev pkg-config'],
  ['github.com/gotk3/gotk3', 'libgtk-3-dev pkg-config'],
  ['github.com/diamondburned/gotk4', 'libgtk-4-dev pkg-config'],
  ['github.com/google/gousb', 'libusb-1.0-0-dev pkg-config'],
  ['github.com/miekg/pkcs11', ''],
  ['github.com/ThalesIgnite/crypto11', ''],
  ['github.com/otiai10/gosseract', 'libtesseract-dev libleptonica-dev'],
  ['gocv.io/x/gocv', 'libopencv-dev pkg-config'],
  ['rogchap.com/v8go', ''],
]

export function goPackages(required: readonly NamedLibrary[]): readonly FoundPackage[] {
  return distinctPackages(
    required.flatMap(({ name, evidence }) =>
      MODULES.filter(([path]) => isOf(name, path)).flatMap(([, packages]) =>
        packagesOf(`build-essential ${packages}`, evidence),
      ),
    ),
  )
}

/** A major version follows after a slash or a dot. */
function isOf(name: string, path: string): boolean {
  return name === path || name.startsWith(`${path}/`) || name.startsWith(`${path}.v`)
}
