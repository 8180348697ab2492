/**
 * Whether a Python project can be installed as a package before its sources are there, and which files that
 * needs.
 */
import { isObject, listAt, valueAt } from '../../../util/untrusted-json.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import { iniAt } from '../project-files/ini-file.ts'
import { readTextFile, textAt } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { buildSystem, type PythonProject } from './project.ts'

export interface PackageFiles {
  /** Files that the build reads. */
  readonly inputs: readonly string[]
  /** Files that the build looks for. */
  readonly stubs: ReadonlyMap<string, string>
  /** Variables for /bin/sh before the command. */
  readonly variables: string
  /** Directories that the build leaves beside the sources. */
  readonly generated: readonly string[]
}

/**
 * Build backends that can make an editable install from empty package directories. Verified for each backend:
 * files added later are importable.
 */
const PURE =
  /^(?:setuptools\.|hatchling\.|flit_core\.|flit_scm|poetry\.core\.|poetry_dynamic_versioning\.|pdm\.backend|uv_build|pbr\.build)/
/** Build requirements that compile sources. */
const COMPILES =
  /^(?:cython|pybind11|nanobind|setuptools-rust|maturin|scikit-build|scikit-build-core|meson-python|numpy|cffi|cmake|mypy|grpcio-tools)\b/i
/** Build requirements that get the version from git. */
const FROM_GIT: readonly (readonly [need: RegExp, variable: string])[] = [
  [/^(?:setuptools[-_]scm|hatch-vcs|flit[-_]scm|vcs-versioning)/i, 'SETUPTOOLS_SCM_PRETEND_VERSION=0.0.0'],
  [/^pdm-backend/i, 'PDM_BUILD_SCM_VERSION=0.0.0'],
  [/^poetry-dynamic-versioning/i, 'POETRY_DYNAMIC_VERSIONING_BYPASS=0.0.0'],
  [/^pbr\b/i, 'PBR_VERSION=0.0.0'],
]
const STAND_IN = '"""Stands in for the file until the sources are there."""\n\n__version__ = "0.0.0"\n'
const MOST_PACKAGES = 100
/** Text that only describes the package. */
const PROSE =
  /(?:^|\/)(?:readme|license|licence|copying|notice|authors|contributors|changelog|changes|history|news|description|long_description)[^/]*$/i

/** Undefined if it is not a package or has parts to compile. */
export function packageFiles(tree: FileTree, project: PythonProject): PackageFiles | undefined {
  const system = buildSystem(project)
  if (!system || !isPure(project, system)) return undefined
  const { directory } = project
  const named = [...new Set([...namedFiles(tree, project), ...proseFiles(tree, directory)])]
  const stubs = new Map<string, string>()
  for (const file of [...topPackages(tree, directory), ...versionFiles(tree, project)])
    stubs.set(file, standIn(tree, file))
  // The plugin extracts the description from the content of these files.
  const cutsProse = system.needs.some((one) => /^hatch-fancy-pypi-readme/i.test(one))
  for (const file of named) if (PROSE.test(file) && !cutsProse) stubs.set(file, '')
  const inputs = ['pyproject.toml', 'setup.py', 'setup.cfg', 'MANIFEST.in', 'versioneer.py', 'hatch_build.py']
    .map((name) => joinPath(directory, name))
    .filter((file) => tree.has(file))
  return {
    inputs: [...inputs, ...named.filter((file) => !stubs.has(file))],
    stubs,
    variables: FROM_GIT.flatMap(([need, variable]) =>
      system.needs.some((one) => need.test(one)) ||
      (variable.startsWith('PBR') && /\bpbr\s{0,3}=\s{0,3}True/.test(project.setupPy?.text ?? ''))
        ? [`${variable} `]
        : [],
    ).join(''),
    generated: system.backend.startsWith('setuptools.') ? leftovers(tree, project) : [],
  }
}

function isPure(
  project: PythonProject,
  { backend, needs }: { backend: string; needs: readonly string[] },
): boolean {
  if (!PURE.test(backend) || needs.some((one) => COMPILES.test(one))) return false
  const setup = project.setupPy?.text ?? ''
  if (/\b(?:ext_modules|rust_extensions|cffi_modules|Extension\(|CMakeExtension)/.test(setup)) return false
  if (/^[ \t]{0,20}(?:from|import) {1,5}(?:Cython|numpy|torch|pybind11|skbuild)/m.test(setup)) return false
  const data = project.pyproject?.data
  const hooks = valueAt(data, 'tool', 'setuptools', 'ext-modules') ?? valueAt(data, 'tool', 'poetry', 'build')
  // A hatch hook runs code of the project.
  return hooks === undefined && !isObject(valueAt(data, 'tool', 'hatch', 'build', 'hooks', 'custom'))
}

/** The directories that imports begin with, in `src` or beside the manifest, and modules of a single file. */
function topPackages(tree: FileTree, directory: string): readonly string[] {
  const source = joinPath(directory, 'src')
  const hasSource = tree.below(source).some((file) => file.endsWith('.py'))
  const above = hasSource ? source : directory
  const start = above === '' ? '' : `${above}/`
  const found = tree.below(above).filter((file) => {
    if (!file.endsWith('.py')) return false
    const parts = file.slice(start.length).split('/')
    if (parts.length === 1)
      return !/^(?:setup|conftest|noxfile|versioneer|hatch_build|manage|fabfile|tasks)\.py$/.test(
        parts[0] ?? '',
      )
    return parts.length <= 3 && parts.at(-1) === '__init__.py'
  })
  return found.slice(0, MOST_PACKAGES)
}

/** Files that contain the version. */
function versionFiles(tree: FileTree, { directory, pyproject, setupCfg }: PythonProject): readonly string[] {
  const data = pyproject?.data
  const attribute =
    textAt(data, 'tool', 'setuptools', 'dynamic', 'version', 'attr') ??
    /^attr:\s{0,5}([\w.]{1,200})$/.exec(iniAt(setupCfg?.ini, 'metadata', 'version')?.text ?? '')?.[1]
  const module = attribute?.split('.').slice(0, -1).join('/')
  const paths = [
    textAt(data, 'tool', 'hatch', 'version', 'path'),
    textAt(data, 'tool', 'pdm', 'version', 'path'),
    ...(module
      ? [`${module}.py`, `src/${module}.py`, `${module}/__init__.py`, `src/${module}/__init__.py`]
      : []),
  ]
  return paths.flatMap((path) => {
    const file = path === undefined ? undefined : pathInProject(directory, path)
    return file !== undefined && tree.has(file) && file.endsWith('.py') ? [file] : []
  })
}

/** Copies only the version, so that other changes of the sources do not change the installed package. */
function standIn(tree: FileTree, file: string): string {
  const text = readTextFile(tree, file)?.slice(0, 20_000) ?? ''
  const [, name, version] =
    /^(__version__|VERSION|version)\s{0,5}(?::\s{0,5}\w{1,20})?\s{0,5}=\s{0,5}['"]([\w.+-]{1,60})['"]/m.exec(
      text,
    ) ?? []
  if (version === undefined) return STAND_IN
  return `${STAND_IN.replace('0.0.0', version)}${name === '__version__' ? '' : `${name} = "${version}"\n`}`
}

function proseFiles(tree: FileTree, directory: string): readonly string[] {
  return tree
    .in(directory)
    .filter((name) => PROSE.test(name))
    .map((name) => joinPath(directory, name))
}

/** Files that the manifests name, as far as they are there. */
function namedFiles(
  tree: FileTree,
  { directory, pyproject, setupCfg, setupPy }: PythonProject,
): readonly string[] {
  const data = pyproject?.data
  const dynamic = valueAt(data, 'tool', 'setuptools', 'dynamic')
  const names = [
    textAt(data, 'project', 'readme') ?? textAt(data, 'project', 'readme', 'file'),
    textAt(data, 'project', 'license', 'file'),
    textAt(data, 'tool', 'poetry', 'readme'),
    ...listAt(data, 'tool', 'poetry', 'readme'),
    ...listAt(data, 'project', 'license-files'),
    ...Object.values(isObject(dynamic) ? dynamic : {}).flatMap((one) => {
      const file = valueAt(one, 'file')
      return Array.isArray(file) ? file : [file]
    }),
    ...[...(setupCfg?.ini.get('metadata')?.values() ?? [])].flatMap(({ text }) =>
      text.startsWith('file:') ? text.slice(5).split(/[,\n]/) : [],
    ),
    ...[
      ...(setupPy?.text ?? '').matchAll(/['"]([\w./-]{1,100}\.(?:md|rst|txt|py|toml|json|cfg|in))['"]/g),
    ].map(([, path]) => path),
    ...[
      ...(setupPy?.text ?? '').matchAll(
        /['"]((?:LICENSE|README|VERSION|CHANGES|CHANGELOG)[\w.-]{0,20})['"]/g,
      ),
    ].map(([, path]) => path),
    ...joinedPaths(setupPy?.text ?? ''),
  ]
  const found = names.slice(0, 200).flatMap((name) => {
    const file = typeof name === 'string' ? pathInProject(directory, name.trim()) : undefined
    return file !== undefined && tree.has(file) ? [file] : []
  })
  return [...new Set(found)]
}

/** `os.path.join(here, "package", "version.py")`. */
function joinedPaths(text: string): readonly string[] {
  return [...text.matchAll(/\bjoin\(([^()]{1,200})\)/g)].map(([, inner = '']) =>
    [...inner.matchAll(/['"]([\w.-]{1,60})['"]/g)].map(([, part]) => part).join('/'),
  )
}

function leftovers(tree: FileTree, { directory, pyproject, setupCfg }: PythonProject): readonly string[] {
  const name = textAt(pyproject?.data, 'project', 'name') ?? iniAt(setupCfg?.ini, 'metadata', 'name')?.text
  if (name === undefined || !/^[\w.-]{1,100}$/.test(name)) return []
  const hasSource = tree.below(joinPath(directory, 'src')).length > 0
  const place = hasSource ? joinPath(directory, 'src') : directory
  return [joinPath(place, `${name.replaceAll(/[-.]+/g, '_')}.egg-info`)]
}
