/** Files of other platforms whose packages come from Debian, and processes that run beside the project. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, test } from 'node:test'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

function project(files: Readonly<Record<string, string>>): string {
  const directory = join(world.directory(), 'project')
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(directory, dirname(path)), { recursive: true })
    writeFileSync(join(directory, path), text)
  }
  return directory
}

async function passes(cwd: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await world.cli(args, { cwd, timeoutMs: 600_000 })
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  return stdout
}

describe('files of other platforms', () => {
  test('FMT-6 packages of nixpacks.toml are installed from Debian', async () => {
    const directory = project({
      'nixpacks.toml':
        '[phases.setup]\naptPkgs = ["bc"]\nnixPkgs = ["jq"]\n[phases.build]\ncmds = ["echo \'6 * 7\' | bc | jq ."]\n',
    })
    assert.equal((await passes(directory, 'run', '--', 'sh', '-c', 'echo "6 * 7" | bc | jq .')).trim(), '42')
  })

  test('FMT-7 the flake of a project is built by Debian’s nix in the sandbox', async () => {
    const system = process.arch === 'arm64' ? 'aarch64-linux' : 'x86_64-linux'
    const program = "printf '#!/bin/sh\\\\necho hello from nix\\\\n' > $out/bin/greet"
    const directory = project({
      'agentpod.toml':
        '[environment]\nbase = "debian"\n[environment.packages]\napt = ["nix-bin"]\nnix = [".#default"]\n[lifecycle]\ntest = "greet"\n',
      // It has no inputs, so it needs no network.
      'flake.nix': `{
  outputs = { self }: {
    packages.${system}.default = derivation {
      name = "greet";
      system = "${system}";
      builder = "/bin/sh";
      args = [ "-c" "PATH=/bin:/usr/bin; mkdir -p $out/bin; ${program}; chmod 755 $out/bin/greet" ];
    };
  };
}
`,
    })
    assert.equal(await passes(directory, 'test'), 'hello from nix\n')
    assert.equal(await passes(directory, 'run', '--', 'greet'), 'hello from nix\n')
  })

  test('FMT-2 a terminal of Cursor listens before the command starts', async () => {
    const server = `require('node:http').createServer((_, r) => r.end('hello')).listen(4555, '127.0.0.1')`
    const directory = project({
      'server.js': server,
      '.nvmrc': '20\n',
      'package.json': '{"name":"x","private":true}',
      '.cursor/environment.json':
        '{ "terminals": [{ "name": "Api", "command": "PORT=4555 node server.js" }] }',
    })
    const ask = `fetch('http://127.0.0.1:4555').then((r) => r.text()).then(console.log)`
    assert.equal((await passes(directory, 'run', '--', 'node', '-e', ask)).trim(), 'hello')
  })
})
