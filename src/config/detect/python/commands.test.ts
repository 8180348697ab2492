import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectPython } from './detect.ts'

const VENV = '[ -x .venv/bin/python ] || python3 -m venv .venv'
const PIP = '.venv/bin/python -m pip install'

describe('what people do with a Python project', () => {
  const requires = (...names: readonly string[]): string => names.join('\n')
  testDetector(detectPython, [
    {
      name: 'is tested as it is configured',
      files: { 'requirements.txt': 'a', 'setup.cfg': '[tool:pytest]\n' },
      finds: [{ test: 'pytest', setup: `${VENV} && ${PIP} -r requirements.txt && ${PIP} pytest` }],
    },
    {
      name: 'is tested by unittest where the tests are written for it',
      files: { 'requirements.txt': 'a', 'tests/test_a.py': 'import unittest\n' },
      finds: [{ test: 'python -m unittest discover -s tests' }],
    },
    {
      name: 'is tested by unittest from the top where the tests are a package',
      files: { 'requirements.txt': 'a', 'tests/test_a.py': 'import unittest\n', 'tests/__init__.py': '' },
      finds: [{ test: 'python -m unittest discover' }],
    },
    {
      name: 'is Django’s',
      files: {
        'requirements.txt': requires('Django>=5', 'gunicorn'),
        'manage.py': 'import django\n',
        'shop/wsgi.py': '',
        'shop/tests.py': 'from django.test import TestCase\n',
      },
      finds: [
        {
          dev: 'python manage.py runserver 0.0.0.0:8000',
          test: 'python manage.py test',
          start: 'gunicorn shop.wsgi --bind 0.0.0.0:8000',
          ports: [8000],
        },
      ],
    },
    {
      name: 'is Django’s, tested by pytest',
      files: { 'requirements.txt': requires('django', 'pytest-django'), 'manage.py': 'import django\n' },
      finds: [{ test: 'pytest' }],
    },
    {
      name: 'is FastAPI’s, in whatever file the application stands',
      files: {
        'requirements.txt': requires('fastapi[standard]'),
        'src/shop/main.py': 'from fastapi import FastAPI\n\napi: FastAPI = FastAPI(title="x")\n',
        'tests/main.py': 'app = FastAPI()\n',
      },
      finds: [
        {
          dev: 'uvicorn shop.main:api --app-dir src --reload --host 0.0.0.0 --port 8000',
          start: 'uvicorn shop.main:api --app-dir src --host 0.0.0.0 --port 8000',
          ports: [8000],
        },
      ],
    },
    {
      name: 'is FastAPI’s, made by a function',
      files: {
        'requirements.txt': 'fastapi',
        'app/__init__.py': 'def create_app():\n    return FastAPI()\n',
      },
      finds: [{ dev: 'uvicorn app:create_app --factory --reload --host 0.0.0.0 --port 8000' }],
    },
    {
      name: 'is Flask’s',
      files: { 'requirements.txt': requires('flask', 'gunicorn'), 'app.py': 'app = Flask(__name__)\n' },
      finds: [
        {
          dev: 'flask --app app run --debug --host 0.0.0.0 --port 5000',
          start: 'gunicorn app:app --bind 0.0.0.0:5000',
          ports: [5000],
        },
      ],
    },
    {
      name: 'is Streamlit’s',
      files: { 'requirements.txt': 'streamlit', 'board.py': 'import streamlit as st\n' },
      finds: [{ dev: 'streamlit run board.py --server.address 0.0.0.0 --server.port 8501', ports: [8501] }],
    },
    {
      name: 'is nothing that only looks like a server',
      files: { 'requirements.txt': 'a', 'main.py': 'app = FastAPI()\n' },
      finds: [{ dev: undefined, ports: [] }],
    },
    ...(
      [
        ['ruff', 'ruff check .'],
        ['flake8', 'flake8'],
        ['pylint', 'pylint .'],
        ['black', 'black --check .'],
      ] as const
    ).map(([name, run]) => ({
      name: `is linted by ${run}`,
      files: { 'requirements.txt': name },
      finds: [{ lint: run }],
    })),
    {
      name: 'is built where it has what for',
      files: { 'requirements.txt': requires('build') },
      finds: [{ build: 'python -m build' }],
    },
  ])
})
