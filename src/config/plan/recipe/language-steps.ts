/** Steps that install a language from npm or from the Go module proxy. */
import type { ListedVersion } from '../languages/registry-versions.ts'
import type { LanguagePlan } from '../plan.ts'
import { type DraftStep, type PresetsByName, presetsNamed, rootStep } from './draft-step.ts'

export function languageStep({ language, source }: LanguagePlan, presets: PresetsByName): DraftStep[] {
  const to = `/opt/agentpod/${language}-${source.version}`
  if (source.kind === 'npm')
    return [
      rootStep({
        name: language,
        title: `${language} ${source.version} from npm`,
        run: `mkdir -p ${to}\n${fromNpm(source.package, source.version, source.sha512, to)}${source.npm ? npmItself(source.npm, to) : ''}${language === 'deno' ? `mkdir -p ${to}/bin\nmv ${to}/deno ${to}/bin/\n` : ''}chmod 755 ${to}/bin/*\n`,
        presets: presetsNamed(presets, 'npm'),
      }),
    ]
  if (source.kind === 'go')
    return [
      rootStep({
        name: 'go',
        title: `go ${source.version} from the module proxy`,
        run: fromGoProxy(source.version, source.arch, to),
        presets: presetsNamed(presets, 'go'),
      }),
    ]
  return []
}

const REGISTRY = `registry=\${npm_config_registry%/}
[ -n "$registry" ] || { echo 'where npm fetches from is not known'; exit 1; }
`

/** Downloads and unpacks a package. The digest is the one that the registry gave when the plan was made. */
function fromNpm(name: string, version: string, sha512: string | undefined, to: string): string {
  const file = `${name.split('/').at(-1)}-${version}.tgz`
  const check = sha512 ? `printf '%s  %s\\n' ${sha512} /tmp/package.tgz | sha512sum -c --quiet -\n` : ''
  return `${REGISTRY}curl -fsSL --retry 3 --retry-all-errors -o /tmp/package.tgz "$registry/${name}/-/${file}"
${check}tar -xzf /tmp/package.tgz -C ${to} --strip-components=1 --no-same-owner
rm /tmp/package.tgz
`
}

/** Node's package does not include npm. */
function npmItself({ version, sha512 }: ListedVersion, to: string): string {
  const place = `${to}/lib/node_modules/npm`
  return `mkdir -p ${place}
${fromNpm('npm', version, sha512, place)}ln -s ../lib/node_modules/npm/bin/npm-cli.js ${to}/bin/npm
ln -s ../lib/node_modules/npm/bin/npx-cli.js ${to}/bin/npx
`
}

/** Module archives do not keep executable bits. */
function fromGoProxy(version: string, arch: string, to: string): string {
  const name = `v0.0.1-go${version}.linux-${arch}`
  return `proxy=\${GOPROXY%%[,|]*}
curl -fsSL --retry 3 --retry-all-errors -o /tmp/go.zip "\${proxy%/}/golang.org/toolchain/@v/${name}.zip"
mkdir -p /tmp/go
if command -v unzip >/dev/null; then unzip -q /tmp/go.zip -d /tmp/go; else python3 -m zipfile -e /tmp/go.zip /tmp/go; fi
mkdir -p ${to}
cp -r "/tmp/go/golang.org/toolchain@${name}/." ${to}/
chmod 755 ${to}/bin/* ${to}/pkg/tool/*/*
rm -rf /tmp/go /tmp/go.zip
`
}
