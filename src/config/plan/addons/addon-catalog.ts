/** How each addon is installed and run. */
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { AddonName } from '../../project/addons-table.ts'

export interface AddonParts {
  readonly port: number
  readonly user: string
  readonly workspace: string
}

export interface KnownAddon {
  /** Shown beside its address. */
  readonly label: string
  /** Debian packages. */
  readonly packages: readonly string[]
  /** Whether its step needs Node's registry. */
  readonly usesNpm: boolean
  /** Commands of its own step, run as root; `arch` is Node's name of the architecture. */
  install(arch: string): string
  run(parts: AddonParts): string
  /** Whether it starts once the project is inside. */
  readonly needsProject: boolean
  /** Variables for every command of the sandbox. */
  readonly variables: Readonly<Record<string, string>>
}

const ADDONS = '/opt/agentpod/addons'

/** Versions that were built and tried together on 2026-11-18. code-server needs this line of Node. */
const CODE_SERVER = '4.139.1'
const NODE = '24.21.0'
const NPM = '11.6.2'
/** SHA-512 of the packages, as the registry states it. */
const NODE_SHA512: Readonly<Record<string, string>> = {
  x64: 'de750bb336795f47dc898a46d2de93add029273027f3e16520d3fa3a2317ed5f07aefa404cf37ddfa5352e545e389ae22d16b87bcc84a900580a72f23cd02ced',
  arm64:
    '1692513c4cf63afbd32df8c83a5346158f492cf30a825e66f9de2819804b836e242759a6bcdd5997f1cf2601781c3689e752127afd65d5c459fc333e91e5d6e6',
}
const NPM_SHA512 =
  'ee22b335fcbc95662cdf3ab8a053daf045d9cf9c6df6040d28965abb707512b2c16fa6c5eec049d34c74f78f390cebd14f697919eadb97756564d4f9eccc4954'

export const KNOWN_ADDONS: Readonly<Record<AddonName, KnownAddon>> = {
  'code-server': {
    label: 'VS Code',
    // Its native modules are compiled, with the headers that Node's package has.
    packages: ['ca-certificates', 'curl', 'g++', 'git', 'libkrb5-dev', 'make', 'pkg-config', 'python3'],
    usesNpm: true,
    install: (arch) => `node=${ADDONS}/node
registry=\${npm_config_registry%/}
[ -n "$registry" ] || { echo 'the registry of npm is not known' >&2; exit 1; }
fetch() {
  curl -fsSL --retry 3 --retry-all-errors -o /tmp/package.tgz "$registry/$1"
  printf '%s  %s\\n' "$2" /tmp/package.tgz | sha512sum -c --quiet -
  mkdir -p "$3"
  tar -xzf /tmp/package.tgz -C "$3" --strip-components=1 --no-same-owner
  rm /tmp/package.tgz
}
fetch node-linux-${arch}/-/node-linux-${arch}-${NODE}.tgz ${NODE_SHA512[arch] ?? 'unknown'} "$node"
fetch npm/-/npm-${NPM}.tgz ${NPM_SHA512} "$node/lib/node_modules/npm"
chmod 755 "$node/bin/node"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$node/bin/npm"
PATH="$node/bin:$PATH"; export PATH
npm_config_nodedir="$node"; export npm_config_nodedir
npm install -g --no-audit --no-fund --foreground-scripts --prefix ${ADDONS}/code-server code-server@${CODE_SERVER}
${ADDONS}/code-server/bin/code-server --version
rm -rf "$HOME/.npm" "$HOME/.cache" "$HOME/.config/code-server"
`,
    run: ({ port, workspace }) => `PATH="${ADDONS}/node/bin:$PATH"; export PATH
exec ${ADDONS}/code-server/bin/code-server --auth none --bind-addr 127.0.0.1:${port} --disable-telemetry --disable-update-check --disable-workspace-trust --ignore-last-opened ${shellWord(workspace)}`,
    needsProject: true,
    variables: {},
  },
  gui: {
    label: 'Desktop',
    packages: [
      ...['novnc', 'openbox', 'python3', 'tigervnc-standalone-server', 'websockify'],
      ...['x11-xserver-utils', 'xfonts-base', 'xterm'],
    ],
    usesNpm: false,
    // The page at the top connects at once, and the desktop takes the size of the window.
    install: () => `mkdir -p ${ADDONS}/gui
ln -s /usr/share/novnc/* ${ADDONS}/gui/
rm -f ${ADDONS}/gui/index.html
printf '%s\\n' '<!doctype html><meta http-equiv="refresh" content="0; url=vnc.html?autoconnect=1&amp;resize=remote">' > ${ADDONS}/gui/index.html
`,
    // The VNC server has no port: only websockify reaches it, through a socket of this user.
    run: ({ port }) => `DISPLAY=${DISPLAY}; export DISPLAY
own="$(mktemp -d)"
rm -f /tmp/.X1-lock /tmp/.X11-unix/X1
mkdir -p -m 1777 /tmp/.X11-unix
Xvnc "$DISPLAY" -geometry 1280x800 -depth 24 -SecurityTypes None -AlwaysShared -rfbport -1 -rfbunixpath "$own/vnc" -rfbunixmode 0600 -nolisten tcp &
for _ in $(seq 100); do [ -S "$own/vnc" ] && [ -S /tmp/.X11-unix/X1 ] && break; sleep 0.1; done
[ -S "$own/vnc" ] || { echo 'the virtual display did not start' >&2; exit 1; }
xsetroot -solid '#2e3440'
openbox &
cd "$HOME" && xterm -geometry 100x30+40+40 &
exec websockify --web ${ADDONS}/gui --unix-target "$own/vnc" 127.0.0.1:${port}`,
    needsProject: false,
    variables: { DISPLAY: ':1' },
  },
}

const DISPLAY = ':1'
