/** Small projects of well-known frameworks, made for this: what each is installed, built and started with. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { summaryOf } from '../testing/detector-table.ts'
import { memoryTree } from '../testing/memory-tree.ts'
import { detect } from './detect.ts'

type Files = Readonly<Record<string, string>>

interface Example {
  readonly files: Files
  readonly language: string
  readonly manager?: string
  /** A part of the command. */
  readonly install?: string
  readonly build?: string
  /** The whole command. */
  readonly start: string | undefined
  readonly dev?: string
  /** The first that is asked for. */
  readonly version?: string
}

/** A package with these dependencies and scripts. */
function node(
  dependencies: readonly string[],
  scripts: Files = {},
  more: Readonly<Record<string, unknown>> = {},
): Files {
  const wanted = Object.fromEntries(dependencies.map((name) => [name, '^1.0.0']))
  return {
    'package.json': JSON.stringify({ name: 'shop', dependencies: wanted, scripts, ...more }),
    'package-lock.json': '{"lockfileVersion":3,"packages":{}}',
  }
}

const python = (needs: string, files: Files): Files => ({ 'requirements.txt': needs, ...files })
const npm = { language: 'node', manager: 'npm', install: 'npm ci' }
const pip = { language: 'python', manager: 'pip', install: 'pip install -r requirements.txt' }
const maven = { language: 'java', manager: 'maven', build: 'mvn -B -DskipTests package' }

const pom = (plugin: string, more = ''): Files => ({
  'pom.xml': `<project><groupId>x</groupId><artifactId>shop</artifactId><version>1.0</version>
<properties><java.version>21</java.version></properties>
<build><plugins><plugin><artifactId>${plugin}</artifactId>${more}</plugin></plugins></build></project>`,
})
const LIBS = '"$(ls build/libs/*.jar | grep -v -e -plain.jar -e -sources.jar | head -n 1)"'

const EXAMPLES: Readonly<Record<string, Example>> = {
  Express: {
    ...npm,
    files: { ...node(['express']), 'index.js': "require('express')().listen(3000)\n" },
    start: 'node index.js',
  },
  'a main file that package.json names': {
    ...npm,
    files: { ...node([], {}, { main: 'src/app.js' }), 'src/app.js': 'console.log(1)\n' },
    start: 'node src/app.js',
  },
  'an index without anything': {
    ...npm,
    files: { ...node([]), 'index.js': 'console.log(1)\n' },
    start: 'node index.js',
  },
  'a library, which starts nothing': {
    ...npm,
    files: {
      ...node([], {}, { main: 'index.js', exports: './index.js' }),
      'index.js': 'module.exports = 1\n',
    },
    start: undefined,
  },
  'TypeScript with tsx': {
    ...npm,
    files: { ...node(['hono', 'tsx']), 'src/index.ts': 'serve(app)\n' },
    start: 'npx tsx src/index.ts',
  },
  'Hono on Bun': {
    files: {
      'package.json': '{"dependencies":{"hono":"4"}}',
      'bun.lock': '{}',
      'index.ts': 'export default app\n',
    },
    language: 'bun',
    manager: 'bun',
    install: 'bun install',
    start: 'bun index.ts',
  },
  'Next.js': {
    ...npm,
    files: node(['next', 'react'], { dev: 'next dev', build: 'next build', start: 'next start' }),
    build: 'npm run build',
    start: 'npm start',
    dev: 'npm run dev',
  },
  'Next.js without a script': { ...npm, files: node(['next']), start: 'npx next start' },
  Nuxt: {
    ...npm,
    files: node(['nuxt'], { build: 'nuxt build', dev: 'nuxt dev', preview: 'nuxt preview' }),
    build: 'npm run build',
    start: 'node .output/server/index.mjs',
  },
  'SvelteKit for Node': {
    ...npm,
    files: node(['@sveltejs/kit', '@sveltejs/adapter-node', 'vite'], { build: 'vite build' }),
    build: 'npm run build',
    start: 'node build',
  },
  'SvelteKit for anything': {
    ...npm,
    files: node(['@sveltejs/kit', 'vite'], { build: 'vite build', preview: 'vite preview' }),
    start: 'npm run preview',
  },
  'React Router': {
    ...npm,
    files: node(['react-router', '@react-router/serve'], { build: 'react-router build' }),
    start: 'npx react-router-serve build/server/index.js',
  },
  Remix: { ...npm, files: node(['@remix-run/serve']), start: 'npx remix-serve build/server/index.js' },
  'Astro with a server': {
    ...npm,
    files: node(['astro', '@astrojs/node'], { build: 'astro build' }),
    start: 'node dist/server/entry.mjs',
  },
  'Astro without one': {
    ...npm,
    files: node(['astro'], { build: 'astro build', preview: 'astro preview' }),
    start: 'npm run preview',
  },
  'TanStack Start': {
    ...npm,
    files: node(['@tanstack/react-start', 'vite']),
    start: 'node .output/server/index.mjs',
  },
  'pages by Vite': {
    ...npm,
    files: { ...node(['react', 'vite'], { dev: 'vite', build: 'vite build' }), 'index.html': '' },
    dev: 'npm run dev',
    start: 'npx vite preview --host 0.0.0.0',
  },
  Nest: {
    ...npm,
    files: node(['@nestjs/core'], { build: 'nest build', 'start:dev': 'nest start --watch' }),
    dev: 'npm run start:dev',
    start: 'node dist/main',
  },
  'Nest with its scripts': {
    ...npm,
    files: node(['@nestjs/core'], { start: 'nest start', 'start:prod': 'node dist/main' }),
    start: 'npm start',
  },
  Flask: {
    ...pip,
    files: python('flask\n', { 'app.py': 'from flask import Flask\napp = Flask(__name__)\n' }),
    start: 'flask --app app run --host 0.0.0.0 --port 5000',
  },
  'Flask with gunicorn': {
    ...pip,
    files: python('flask\ngunicorn\n', { 'main.py': 'app = Flask(__name__)\n', '.python-version': '3.12\n' }),
    start: 'gunicorn main:app --bind 0.0.0.0:5000',
    version: '3.12',
  },
  FastAPI: {
    ...pip,
    files: python('fastapi\nuvicorn\n', { 'main.py': 'app = FastAPI()\n' }),
    dev: 'uvicorn main:app --reload --host 0.0.0.0 --port 8000',
    start: 'uvicorn main:app --host 0.0.0.0 --port 8000',
  },
  'FastAPI without a server': {
    ...pip,
    files: python('fastapi\n', { 'main.py': 'app = FastAPI()\n' }),
    install: 'uvicorn',
    start: 'uvicorn main:app --host 0.0.0.0 --port 8000',
  },
  Django: {
    ...pip,
    files: python('django\n', { 'manage.py': '# django\n', 'shop/wsgi.py': '', 'shop/settings.py': '' }),
    start: 'python manage.py runserver 0.0.0.0:8000',
  },
  'Django with gunicorn': {
    ...pip,
    files: python('django\ngunicorn\n', { 'manage.py': '# django\n', 'shop/wsgi.py': '' }),
    start: 'gunicorn shop.wsgi --bind 0.0.0.0:8000',
  },
  Streamlit: {
    ...pip,
    files: python('streamlit\n', { 'app.py': 'import streamlit as st\n' }),
    start: 'streamlit run app.py --server.address 0.0.0.0 --server.port 8501',
  },
  'a script without a guard': {
    ...pip,
    files: python('httpx\n', { 'main.py': 'print(1)\n' }),
    start: 'python main.py',
  },
  'a bot': {
    ...pip,
    files: python('discord.py\n', { 'bot.py': 'client.run(token)\n' }),
    start: 'python bot.py',
  },
  'the only script': {
    files: { 'fetch prices.py': 'print(1)\n' },
    language: 'python',
    start: "python 'fetch prices.py'",
  },
  'a script of a package': {
    files: {
      'pyproject.toml': '[project]\nname = "x"\n[project.scripts]\nshop = "x:main"\n',
      'x/__init__.py': '',
    },
    language: 'python',
    start: 'shop',
  },
  'a package that is run as one': {
    files: { 'pyproject.toml': '[project]\nname = "shop"\n', 'shop/__main__.py': '', 'shop/__init__.py': '' },
    language: 'python',
    start: 'python -m shop',
  },
  'a Procfile': {
    ...pip,
    files: python('flask\n', { 'app.py': 'app = Flask()\n', Procfile: 'web: python app.py\n' }),
    start: 'python app.py',
  },
  'Spring Boot with Maven': {
    ...maven,
    files: pom('spring-boot-maven-plugin'),
    dev: 'mvn -B spring-boot:run',
    start: 'mvn -B -DskipTests package && java -jar target/shop-1.0.jar',
    version: '21',
  },
  'Quarkus with Maven': {
    ...maven,
    files: pom('quarkus-maven-plugin'),
    start: 'mvn -B -DskipTests package && java -jar target/quarkus-app/quarkus-run.jar',
  },
  'a jar with a main class': {
    ...maven,
    files: pom(
      'maven-jar-plugin',
      '<configuration><archive><manifest><mainClass>x.Main</mainClass></manifest></archive></configuration>',
    ),
    start: 'mvn -B -DskipTests package && java -jar target/shop-1.0.jar',
  },
  'a jar with everything in it': {
    ...maven,
    files: pom(
      'maven-assembly-plugin',
      '<configuration><archive><manifest><mainClass>x.Main</mainClass></manifest></archive></configuration>',
    ),
    start: 'mvn -B -DskipTests package && java -jar target/shop-1.0-jar-with-dependencies.jar',
  },
  'Spring Boot with Gradle': {
    files: { 'build.gradle': "plugins {\n  id 'org.springframework.boot' version '3.4.0'\n}\n" },
    language: 'java',
    manager: 'gradle',
    dev: 'gradle bootRun',
    start: `gradle bootJar && java -jar ${LIBS}`,
  },
  Ktor: {
    files: {
      'build.gradle.kts':
        'plugins {\n  kotlin("jvm") version "2.0.0"\n  id("io.ktor.plugin") version "3.0.0"\n}\n',
    },
    language: 'kotlin',
    dev: 'gradle run',
    start:
      'gradle buildFatJar && java -jar "$(ls build/libs/*-all.jar | grep -v -e -plain.jar -e -sources.jar | head -n 1)"',
  },
  'an application of Gradle': {
    files: { 'build.gradle': "plugins {\n  id 'application'\n}\n" },
    language: 'java',
    start: 'gradle run',
  },
  Gin: {
    files: {
      'go.mod': 'module x\n\ngo 1.24\n\nrequire github.com/gin-gonic/gin v1.10.0\n',
      'go.sum': '',
      'main.go': 'package main\n',
    },
    language: 'go',
    manager: 'go',
    install: 'go mod download',
    start: 'go run .',
    version: '1.24',
  },
  Axum: {
    files: {
      'Cargo.toml': '[package]\nname = "shop"\nversion = "0.1.0"\n[dependencies]\naxum = "0.8"\n',
      'Cargo.lock': '',
      'src/main.rs': '',
    },
    language: 'rust',
    manager: 'cargo',
    install: 'cargo fetch --locked',
    start: 'cargo run --release',
  },
  Rails: {
    files: { Gemfile: "gem 'rails'\n", 'config/application.rb': '', 'config.ru': '' },
    language: 'ruby',
    manager: 'bundler',
    install: 'bundle install',
    start: 'bundle exec rails server -b 0.0.0.0',
  },
  Sinatra: {
    files: { Gemfile: "gem 'sinatra'\n", 'app.rb': '' },
    language: 'ruby',
    start: 'bundle exec ruby app.rb',
  },
  'a program in Ruby': { files: { 'main.rb': '' }, language: 'ruby', start: 'ruby main.rb' },
  Phoenix: {
    files: { 'mix.exs': 'app: :shop\n{:phoenix, "~> 1.7"}\n' },
    language: 'elixir',
    manager: 'mix',
    start: 'mix phx.server',
  },
  'a release of Mix': {
    files: { 'mix.exs': 'app: :shop,\nreleases: [\n  shop: []\n]\n' },
    language: 'elixir',
    start: 'MIX_ENV=prod mix release --overwrite shop && _build/prod/rel/shop/bin/shop start',
  },
  'an application of Mix': {
    files: { 'mix.exs': 'app: :shop\nmod: {Shop, []}\n' },
    language: 'elixir',
    start: 'mix run --no-halt',
  },
  Laravel: {
    files: {
      'composer.json': '{"require":{"laravel/framework":"^11"}}',
      artisan: '',
      'public/index.php': '',
    },
    language: 'php',
    manager: 'composer',
    start: 'php artisan serve --host=0.0.0.0',
  },
  'a page in PHP': { files: { 'index.php': '' }, language: 'php', start: 'php -S 0.0.0.0:8000' },
  'ASP.NET': {
    files: {
      'shop.csproj':
        '<Project Sdk="Microsoft.NET.Sdk.Web"><PropertyGroup><TargetFramework>net9.0</TargetFramework></PropertyGroup></Project>',
    },
    language: 'dotnet',
    start: 'dotnet run -c Release --project shop.csproj',
    version: '9.0',
  },
  'Deno Fresh': {
    files: {
      'deno.json': '{"tasks":{"start":"deno run -A main.ts","build":"deno run -A dev.ts build"}}',
      'main.ts': '',
    },
    language: 'deno',
    start: 'deno task start',
    build: 'deno task build',
  },
  'Deno without a configuration': {
    files: { 'main.ts': 'Deno.serve(() => new Response("hello"))\n' },
    language: 'deno',
    start: 'deno run -A main.ts',
  },
  'static pages': { files: { 'index.html': '' }, language: 'static', start: 'python3 -m http.server 8000' },
  'a Staticfile': {
    files: { Staticfile: 'root: web/pages\n', 'web/pages/a.html': '' },
    language: 'static',
    start: 'python3 -m http.server 8000 --directory web/pages',
  },
  CMake: {
    files: { 'CMakeLists.txt': `project(shop)\nadd_executable(\${PROJECT_NAME} main.cpp)\n`, 'main.cpp': '' },
    language: 'c',
    manager: 'cmake',
    start: 'cmake -B build -G Ninja && cmake --build build && ./build/shop',
  },
  'CMake with directories and tests': {
    files: {
      'CMakeLists.txt': 'project(shop)\nadd_subdirectory(src)\nadd_subdirectory(tests)\n',
      'src/CMakeLists.txt': 'add_executable(server main.cpp)\n',
      'tests/CMakeLists.txt': 'add_executable(check check.cpp)\n',
    },
    language: 'c',
    start: 'cmake -B build -G Ninja && cmake --build build && ./build/src/server',
  },
  Meson: {
    files: {
      'meson.build': "project('shop', 'c')\nexecutable('shop', 'main.c')\nexecutable('tests', 't.c')\n",
    },
    language: 'c',
    manager: 'meson',
    start: 'meson setup build && meson compile -C build && ./build/shop',
  },
  'Haskell with Cabal': {
    files: { 'shop.cabal': 'name: shop\nexecutable shop\n' },
    language: 'other',
    manager: 'cabal',
    start: 'cabal run',
  },
}

describe('projects of frameworks', () => {
  for (const [name, { files, language, manager, install, build, start, dev, version }] of Object.entries(
    EXAMPLES,
  ))
    test(name, () => {
      const { findings, formats } = detect(memoryTree(files))
      const [found] = findings
      assert.ok(found)
      const summary = summaryOf(found)
      assert.equal(summary.language, language)
      const procfile = formats.find(({ file }) => file === 'Procfile')
      const said = procfile?.commands.start?.[0]?.run ?? summary.start
      assert.equal(said, start)
      if (manager !== undefined) assert.equal(summary.manager, manager)
      if (dev !== undefined) assert.equal(summary.dev, dev)
      if (install !== undefined) assert.ok(summary.setup?.includes(install), summary.setup)
      if (build !== undefined) assert.equal(summary.build, build)
      if (version !== undefined) assert.equal(found.versions[0]?.value, version)
    })
})
