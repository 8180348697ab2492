import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectElixir } from './elixir.ts'

const mix = (inner: string): string =>
  `defmodule X.MixProject do\n  def project do\n    [\n${inner}\n    ]\n  end\nend\n`

describe('Elixir', () => {
  testDetector(detectElixir, [
    { name: 'nothing is found where there is no Elixir', files: { 'x.ex': '' }, finds: [] },
    {
      name: 'a server of Phoenix',
      files: {
        'mix.exs': mix(
          '      app: :shop,\n      elixir: "~> 1.15",\n      deps: [{:phoenix, "~> 1.7"}, {:credo, "~> 1.7"}]',
        ),
        'mix.lock': '',
        'config/config.exs': '',
        'config/runtime.exs': '',
        '.elixir-version': '1.16.1-otp-26\n',
      },
      finds: [
        {
          language: 'elixir',
          seen: 'mix.exs:4',
          versions: ['1.16.1 version file .elixir-version:1', '~> 1.15 range mix.exs:5'],
          manager: 'mix',
          lockfile: 'mix.lock',
          inputs: ['mix.exs', 'mix.lock', 'config/config.exs'],
          dev: 'mix phx.server',
          test: 'mix test',
          lint: 'mix credo',
          build: 'mix compile',
          ports: [4000],
          generated: ['deps', '_build'],
          presets: [],
          notes: [/Hex/],
        },
      ],
    },
    {
      name: 'an umbrella is one finding',
      files: {
        'mix.exs': mix('      apps_path: "apps"'),
        'apps/a/mix.exs': mix('      elixir: "~> 1.14"'),
        'apps/b/mix.exs': mix('      elixir: "~> 1.14"'),
        'apps/b/deps/c/mix.exs': mix(''),
        '.formatter.exs': '',
      },
      finds: [
        {
          members: ['apps/a', 'apps/b'],
          inputs: ['mix.exs', 'apps/a/mix.exs', 'apps/b/mix.exs'],
          versions: ['~> 1.14 range apps/a/mix.exs:4'],
          lint: 'mix format --check-formatted',
          notes: [/no mix\.lock/],
        },
      ],
    },
    {
      name: 'applications cannot lie outside of the project',
      files: {
        'x/mix.exs': mix('      apps_path: "../../etc"'),
        'y/mix.exs': '\uFEFFapp: :y\r\nelixir: "~> 1.12"\r\n',
      },
      finds: [
        { directory: 'x', members: undefined },
        { directory: 'y', versions: ['~> 1.12 range y/mix.exs:2'] },
      ],
    },
  ])
})
