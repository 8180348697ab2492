import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectPython } from './detect.ts'

const VENV = '[ -x .venv/bin/python ] || python3 -m venv .venv'
const PIP = '.venv/bin/python -m pip install'
/** What installs the project itself, last. */
const itself = (install: string, source = '.'): string =>
  `{ ${install} || { echo 'the project itself could not be installed, only what it depends on'; for site in .venv/lib/python3*/site-packages; do realpath ${source} > "$site/project.pth"; done; }; }`

const HATCH = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
const project = (more = '', head = ''): string => `${head}[project]\nname = "shop"\nversion = "1.0"\n${more}`

describe('Python', () => {
  testDetector(detectPython, [
    {
      name: 'nothing is found where there is no Python',
      files: { 'README.md': '', 'a/x.py': '' },
      finds: [],
    },
    {
      name: 'a project is what its requirements say',
      files: {
        'requirements.txt': 'iniconfig==2.0.0\n',
        'requirements-dev.txt': '-r requirements.txt\npytest\n',
      },
      finds: [
        {
          language: 'python',
          seen: 'requirements.txt',
          manager: 'pip',
          tools: [],
          lockfile: undefined,
          inputs: ['requirements-dev.txt', 'requirements.txt'],
          setup: `${VENV} && ${PIP} -r requirements-dev.txt`,
          test: 'pytest',
          generated: ['.venv'],
          presets: ['pip'],
          variables: { VIRTUAL_ENV: '$WORKSPACE/.venv', PYTHONPATH: '$WORKSPACE' },
        },
      ],
    },
    {
      name: 'a program alone needs nothing installed',
      files: { 'main.py': 'if __name__ == "__main__":\n    pass\n' },
      finds: [
        { setup: undefined, start: 'python main.py', generated: [], variables: { PYTHONPATH: '$WORKSPACE' } },
      ],
    },
    {
      name: 'tests alone need pytest',
      files: { 'test_a.py': 'def test_a():\n    pass\n' },
      finds: [
        {
          setup: `${VENV} && ${PIP} pytest`,
          test: 'pytest',
          notes: [/pytest is used but is not a declared dependency/],
        },
      ],
    },
    {
      name: 'what is malformed is told so',
      files: { 'pyproject.toml': '[project\n', Pipfile: '= x' },
      finds: [{ notes: [/pyproject\.toml is malformed/, /Pipfile is malformed/] }],
    },
    {
      name: 'a file that ends its lines as Windows does is read like any other',
      files: {
        'pyproject.toml': `\uFEFF${project('requires-python = ">=3.10"\n').replaceAll('\n', '\r\n')}`,
      },
      finds: [{ versions: ['>=3.10 range pyproject.toml:4'] }],
    },
    {
      name: 'settings of linters are no project, except at the root',
      files: {
        'pyproject.toml': '[tool.ruff]\n',
        'docs/pyproject.toml': '[tool.black]\n',
        'lib/setup.cfg': '[flake8]\n',
      },
      finds: [{ directory: '', lint: 'ruff check .', setup: `${VENV} && ${PIP} ruff` }],
    },
    {
      name: 'settings at the root are no project where the projects lie below',
      files: { 'pyproject.toml': '[tool.ruff]\n', 'api/requirements.txt': 'a' },
      finds: [{ directory: 'api' }],
    },
    {
      name: 'several are found, and what is beside one is not another',
      files: {
        'requirements.txt': 'a',
        'docs/requirements.txt': 'sphinx',
        'services/api/requirements.txt': 'fastapi',
        'examples/x/requirements.txt': 'x',
        'tests/data/y/setup.py': '',
      },
      finds: [{ directory: '' }, { directory: 'services/api', generated: ['services/api/.venv'] }],
    },
    {
      name: 'conda is only told of',
      files: { 'environment.yml': 'dependencies:\n  - python=3.11\n  - numpy\n' },
      finds: [
        {
          versions: ['3.11 range environment.yml:2'],
          setup: undefined,
          notes: [/conda, which is not supported/],
        },
      ],
    },
    {
      name: 'a workspace of uv is one finding',
      files: {
        'pyproject.toml': `${project()}[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/old"]\n`,
        'uv.lock': 'version = 1\n',
        'packages/a/pyproject.toml': project('', HATCH).replace('"shop"', '"shop-a"'),
        'packages/a/src/shop_a/__init__.py': '',
        'packages/old/pyproject.toml': project(),
      },
      finds: [
        {
          members: ['shop-a'],
          setup: `uv sync --frozen --python python3 --all-extras --all-groups --all-packages --no-install-workspace && ${itself('uv pip install --no-deps -e packages/a', 'packages/a/src')}`,
          inputs: ['packages/a/pyproject.toml', 'pyproject.toml', 'uv.lock'],
        },
        { directory: 'packages/old' },
      ],
    },
  ])
})

describe('the version of Python', () => {
  testDetector(detectPython, [
    {
      name: 'is said in many places, of which each is told',
      files: {
        '.python-version': '# ours\n3.12.4\n3.11\nmy-env\n',
        'runtime.txt': 'python-3.11.4\n',
        '.tool-versions': 'python 3.10.2\n',
        Pipfile: '[requires]\npython_version = "3.9"\n',
        'pyproject.toml': project(
          'requires-python = ">=3.8,<4"\nclassifiers = [\n  "Programming Language :: Python :: 3",\n  "Programming Language :: Python :: 3.12",\n]\n',
        ),
        'setup.cfg':
          '[metadata]\nclassifiers =\n    Programming Language :: Python :: 3.7\n[options]\npython_requires = >=3.7\n',
      },
      finds: [
        {
          versions: [
            '3.12.4 version file .python-version:2',
            '3.11 version file .python-version:3',
            '3.11.4 version file runtime.txt:1',
            '3.9 manifest Pipfile:2',
            '3.10.2 version file .tool-versions:1',
            '>=3.8,<4 range pyproject.toml:4',
            '3.12 range pyproject.toml:7',
            '>=3.7 range setup.cfg:5',
            '3.7 range setup.cfg:2',
          ],
        },
      ],
    },
    {
      name: 'is a range of Poetry’s kind, or what a setup.py has',
      files: {
        'a/pyproject.toml': '[tool.poetry.dependencies]\npython = "^3.9"\n',
        'b/setup.py':
          "setup(\n  python_requires='>=3.6',\n  classifiers=['Programming Language :: Python :: 3.8'])\n",
      },
      finds: [
        { directory: 'a', versions: ['^3.9 range a/pyproject.toml:2'] },
        { directory: 'b', versions: ['>=3.6 range b/setup.py:2', '3.8 range b/setup.py:3'] },
      ],
    },
    {
      name: 'is not rounded in a workflow',
      files: {
        'requirements.txt': '',
        '.github/workflows/ci.yml': `jobs:\n  t:\n    strategy:\n      matrix:\n        python: [3.9, 3.10]\n    steps:\n      - uses: actions/setup-python@v5\n        with:\n          python-version: \${{ matrix.python }}\n`,
      },
      finds: [{ versions: ['3.9 ci .github/workflows/ci.yml:9', '3.10 ci .github/workflows/ci.yml:9'] }],
    },
  ])
})

describe('dependencies that need more than pip', () => {
  testDetector(detectPython, [
    {
      name: 'name packages of the system, however they are spelled',
      files: { 'requirements.txt': 'Psycopg2==2.9\npython_magic\npillow\nlxml\npsycopg2-binary\n' },
      finds: [{ packages: ['build-essential', 'libpq-dev', 'libmagic1'] }],
    },
    {
      name: 'need nothing in the variant that carries everything',
      files: { 'requirements.txt': 'psycopg[binary,pool]>=3\n' },
      finds: [{ packages: [] }],
    },
    {
      name: 'are seen in lockfiles, too',
      files: { 'pyproject.toml': project(), 'uv.lock': '[[package]]\nname = "mysqlclient"\nversion = "2"\n' },
      finds: [{ packages: ['build-essential', 'default-libmysqlclient-dev', 'pkg-config'] }],
    },
  ])
})

test('programs of the virtual environment come first', () => {
  const found = detectPython(memoryTree({ 'api/requirements.txt': 'a' }))
  assert.deepEqual(found[0]?.path, ['$WORKSPACE/api/.venv/bin'])
  assert.deepEqual(found[0]?.variables?.['VIRTUAL_ENV'], '$WORKSPACE/api/.venv')
})
