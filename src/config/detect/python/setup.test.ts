import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectPython } from './detect.ts'

const VENV = '[ -x .venv/bin/python ] || python3 -m venv .venv'
const PIP = '.venv/bin/python -m pip install'
/** What installs the project itself, last. */
const itself = (install: string, source = '.'): string =>
  `{ ${install} || { echo 'the project itself could not be installed, only what it depends on'; for site in .venv/lib/python3*/site-packages; do realpath ${source} > "$site/project.pth"; done; }; }`

const HATCH = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
const project = (more = '', head = ''): string => `${head}[project]\nname = "shop"\nversion = "1.0"\n${more}`

describe('pip', () => {
  testDetector(detectPython, [
    {
      name: 'installs what the manifest names, and for development what groups and extras do',
      files: {
        'pyproject.toml': project(
          'dependencies = ["requests>=2; python_version < \'4\'"]\n[project.optional-dependencies]\ndev = ["shop[test]", "ruff"]\ntest = ["pytest>=8"]\nredis = ["redis"]\n[dependency-groups]\nlint = ["mypy", { include-group = "more" }]\nmore = ["black", { include-group = "lint" }]\ndocs = ["sphinx"]\n',
        ),
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} 'requests>=2; python_version < '\\''4'\\''' 'pytest>=8' ruff mypy black`,
          lint: 'ruff check .',
          test: 'pytest',
        },
      ],
    },
    {
      name: 'takes of many files those that are usual',
      files: {
        'requirements/base.txt': 'a\n',
        'requirements/dev.txt': '-r base.txt\n-c constraints.txt\npytest\n',
        'requirements/constraints.txt': 'a<2\n',
        'requirements/prod.txt': 'gunicorn\n',
        'requirements/tests37.txt': 'x\n',
        'requirements/docs.txt': 'sphinx\n',
      },
      finds: [
        {
          seen: 'requirements/base.txt',
          setup: `${VENV} && ${PIP} -r requirements/dev.txt`,
          inputs: ['requirements/base.txt', 'requirements/constraints.txt', 'requirements/dev.txt'],
        },
      ],
    },
    {
      name: 'takes the project’s own file first',
      files: { 'dev-requirements.txt': 'pytest', 'requirements.txt': 'a', 'test-requirements.txt': 'b' },
      finds: [
        { setup: `${VENV} && ${PIP} -r requirements.txt -r dev-requirements.txt -r test-requirements.txt` },
      ],
    },
    {
      name: 'takes whatever there is',
      files: { 'requirements/prod.txt': 'a' },
      finds: [{ setup: `${VENV} && ${PIP} -r requirements/prod.txt` }],
    },
    {
      name: 'keeps files with hashes apart',
      files: {
        'requirements.txt': 'a==1 \\\n    --hash=sha256:00\n',
        'requirements-dev.txt': 'b',
        'test_a.py': 'import pytest\n',
      },
      finds: [
        { setup: `${VENV} && ${PIP} -r requirements.txt && ${PIP} -r requirements-dev.txt && ${PIP} pytest` },
      ],
    },
    {
      name: 'reads files that include each other once',
      files: {
        'requirements.txt': '-r requirements-dev.txt\na\n',
        'requirements-dev.txt': '-r requirements.txt\n-r gone.txt\nb\n',
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} -r requirements-dev.txt`,
          inputs: ['requirements-dev.txt', 'requirements.txt'],
          notes: [/includes gone\.txt, which does not exist/],
        },
      ],
    },
    {
      name: 'tells of repositories, whose hosts it has to reach',
      files: { 'requirements.txt': 'a @ git+https://example.com/a.git\ngit+https://example.com/b.git\n' },
      finds: [{ notes: [/takes git\+https:\/\/example\.com\/b\.git from a repository/] }],
    },
    {
      name: 'installs tools of tox where nothing else names them',
      files: {
        'requirements.txt': 'a',
        'tox.ini': '[testenv]\ndeps =\n    pytest>=7\n    -r requirements.txt\n    py38: old\n',
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} -r requirements.txt 'pytest>=7'`,
          test: 'pytest',
          notes: [/tox runs the tests/],
        },
      ],
    },
    {
      name: 'has names quoted that a shell would take apart',
      files: { 'pyproject.toml': project('dependencies = ["a; $(reboot)", "$(reboot)", "-r x"]\n') },
      finds: [{ setup: `${VENV} && ${PIP} 'a; $(reboot)'` }],
    },
  ])
})

describe('the project itself', () => {
  testDetector(detectPython, [
    {
      name: 'is installed last, on stand-ins for its sources',
      files: {
        'pyproject.toml': project(
          'dependencies = ["a"]\nreadme = "README.md"\nlicense = { file = "COPYING" }\n',
          HATCH,
        ),
        'README.md': 'long',
        COPYING: 'long',
        'src/shop/__init__.py': '__version__ = "2.3.4"\nimport everything\n',
        'src/shop/deep/__init__.py': '',
        'src/shop/main.py': '',
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} a && ${itself(`${PIP} --no-deps -e .`, 'src')}`,
          inputs: ['pyproject.toml'],
          stubs: {
            COPYING: '',
            'README.md': '',
            'src/shop/__init__.py':
              '"""Stands in for the file until the sources are there."""\n\n__version__ = "2.3.4"\n',
            'src/shop/deep/__init__.py':
              '"""Stands in for the file until the sources are there."""\n\n__version__ = "0.0.0"\n',
          },
          variables: { VIRTUAL_ENV: '$WORKSPACE/.venv' },
        },
      ],
    },
    {
      name: 'is given a version where it would ask git',
      files: {
        'pyproject.toml':
          '[build-system]\nrequires = ["setuptools", "setuptools-scm>=8"]\nbuild-backend = "setuptools.build_meta"\n[project]\nname = "the-shop"\ndynamic = ["version"]\n',
        'the_shop/__init__.py': '',
      },
      finds: [
        {
          setup: `${VENV} && ${itself(`SETUPTOOLS_SCM_PRETEND_VERSION=0.0.0 ${PIP} --no-deps -e .`)}`,
          generated: ['.venv', 'the_shop.egg-info'],
        },
      ],
    },
    {
      name: 'is installed with what only its setup.py knows',
      files: {
        'setup.py':
          "from setuptools import setup\nsetup(name='shop', long_description=open('README.rst').read(), install_requires=read('requirements/base.txt'), extras_require={'test': ['pytest']})\n",
        'README.rst': 'x',
        'requirements/base.txt': 'a',
        'shop/__init__.py': '',
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} -r requirements/base.txt -e '.[test]' pytest`,
          inputs: ['requirements/base.txt', 'setup.py'],
          test: 'pytest',
        },
      ],
    },
    {
      name: 'is installed by its requirements where they name it',
      files: {
        'requirements.txt': '-e .\nb\n',
        'pyproject.toml': project('', HATCH),
        'shop/__init__.py': '',
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} -r requirements.txt`,
          inputs: ['pyproject.toml', 'requirements.txt'],
          variables: { VIRTUAL_ENV: '$WORKSPACE/.venv' },
        },
      ],
    },
    {
      name: 'is not installed where it has to be compiled',
      files: {
        'pyproject.toml': project(
          'dependencies = ["a"]\n',
          '[build-system]\nrequires = ["maturin"]\nbuild-backend = "maturin"\n',
        ),
        'src/shop/__init__.py': '',
      },
      finds: [
        {
          setup: `${VENV} && ${PIP} a`,
          stubs: undefined,
          variables: { VIRTUAL_ENV: '$WORKSPACE/.venv', PYTHONPATH: '$WORKSPACE/src' },
          notes: [/parts of the project are compiled from its sources/],
        },
      ],
    },
    {
      name: 'is not installed where its setup.py compiles',
      files: { 'setup.py': "setup(ext_modules=[Extension('a', ['a.c'])], install_requires=['a'])\n" },
      finds: [{ setup: `${VENV} && ${PIP} a`, notes: [/parts of the project are compiled/] }],
    },
    {
      name: 'brings directories of the project along',
      files: {
        'requirements.txt': '-e ./libs/a\n',
        'libs/a/pyproject.toml': project('', HATCH),
        'libs/a/a/__init__.py': '',
      },
      finds: [
        { directory: '', inputs: ['libs/a/pyproject.toml', 'requirements.txt'] },
        { directory: 'libs/a' },
      ],
    },
  ])
})
