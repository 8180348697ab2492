/**
 * The licence texts of code from others that the package contains: npm packages in the bundles, Go and its
 * modules.
 */
import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** `inputs` are the files that esbuild has put into the bundles. */
export function licences(root: string, inputs: readonly string[]): string {
  const packages = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [])
  const parts = [
    ...[...new Set(packages)].sort().map((directory) => npmLicence(join(root, directory))),
    ...goLicences('go', join(root, 'native'), './cmd/...'),
    ...goLicences(newerGo(root), join(root, 'native', 'podimage'), './...'),
  ]
  // Two versions of one package have the same name and usually the same text.
  const unique = [...new Set(parts)]
  return `The programs of this package contain code from the projects below, under these licences.\n\n${unique.join('\n')}`
}

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license?: string
}

function npmLicence(directory: string): string {
  const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest
  const text = licenceIn(directory) ?? `Licence: ${manifest.license}\n`
  return section(`${manifest.name} ${manifest.version}`, text)
}

/** The Go that builds podimage. */
export function newerGo(root: string): string {
  return execFileSync(join(root, 'scripts', 'newer-go'), { encoding: 'utf8' }).trim()
}

function goLicences(program: string, directory: string, packages: string): string[] {
  const go = (...words: string[]): string =>
    execFileSync(program, words, { cwd: directory, encoding: 'utf8' }).trim()
  const format = '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}'
  const modules = [...new Set(go('list', '-deps', '-f', format, packages).split('\n'))].filter(Boolean).sort()
  const runtime = section(
    go('env', 'GOVERSION').replace('go', 'Go '),
    licenceIn(go('env', 'GOROOT')) ?? GO_LICENCE,
  )
  return [
    runtime,
    ...modules.map((line) => {
      const [path = '', version = '', at = ''] = line.split(' ')
      return section(`${path} ${version}`, licenceIn(at) ?? GO_LICENCE)
    }),
  ]
}

/** Debian keeps the text outside of GOROOT. */
const GO_LICENCE = 'Licence: BSD-3-Clause, https://go.dev/LICENSE\n'

function licenceIn(directory: string): string | undefined {
  const [name] = globSync('{LICENSE,LICENCE,License,license,COPYING}*', { cwd: directory }).sort()
  return name === undefined ? undefined : readFileSync(join(directory, name), 'utf8')
}

function section(title: string, text: string): string {
  return `${'='.repeat(80)}\n${title}\n${'='.repeat(80)}\n\n${text.trim()}\n`
}
