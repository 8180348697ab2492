import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectRuby } from './ruby.ts'

const SETUP = 'bundle config set --local path vendor/bundle && bundle install'
const LOCK = `GEM
  remote: https://gems.example.com/
  specs:
    nokogiri (1.16.0-x86_64-linux)
    pg (1.5.4)
    rails (7.1.2)
      railties (= 7.1.2)

RUBY VERSION
   ruby 3.2.2p53

BUNDLED WITH
   2.5.1
`

describe('Ruby', () => {
  testDetector(detectRuby, [
    { name: 'nothing is found where there is no Ruby', files: { 'x.rb': '' }, finds: [] },
    {
      name: 'an application on Rails',
      files: {
        Gemfile:
          "source 'https://gems.example.com'\nruby '3.2.2'\ngem 'rails', '~> 7.1'\ngem \"rspec-rails\"\n",
        'Gemfile.lock': LOCK,
        '.ruby-version': 'ruby-3.2.1\n',
        '.rubocop.yml': '',
        'config/application.rb': '',
        'spec/a_spec.rb': '',
      },
      finds: [
        {
          language: 'ruby',
          seen: 'Gemfile:1',
          versions: [
            '3.2.1 version file .ruby-version:1',
            '3.2.2 manifest Gemfile:2',
            '3.2.2 manifest Gemfile.lock:10',
          ],
          manager: 'bundler',
          tools: ['bundler 2.5.1'],
          lockfile: 'Gemfile.lock',
          inputs: ['Gemfile', 'Gemfile.lock', '.ruby-version'],
          setup: SETUP,
          test: 'bundle exec rspec',
          lint: 'bundle exec rubocop',
          dev: 'bundle exec rails server -b 0.0.0.0',
          ports: [3000],
          packages: ['build-essential', 'libpq-dev'],
          generated: ['vendor/bundle', '.bundle'],
          presets: [],
          variables: undefined,
          notes: [/without a preset/],
        },
      ],
    },
    {
      name: 'a range of versions is a range',
      files: { Gemfile: 'ruby "~> 3.1", ">= 3.1.2"\ngem "nokogiri"\n' },
      finds: [
        {
          versions: ['~> 3.1, >= 3.1.2 range Gemfile:1'],
          packages: ['build-essential', 'libxml2-dev', 'libxslt1-dev', 'pkg-config'],
          notes: [/no Gemfile\.lock/],
        },
      ],
    },
    {
      name: 'a gem is read with the file that holds its version',
      files: {
        Gemfile: 'gemspec\ngem "inner", path: "./inner"\ngem "outer", path: "../../outer"\n',
        'shop.gemspec': 'Gem::Specification.new do |s|\n  s.required_ruby_version = ">= 3.0"\nend\n',
        'lib/shop/version.rb': '',
        'inner/inner.gemspec': '',
        'inner/lib/inner/version.rb': '',
        Rakefile: '',
        'test/a_test.rb': '',
      },
      finds: [
        {
          versions: ['>= 3.0 range shop.gemspec:2'],
          inputs: [
            'Gemfile',
            'shop.gemspec',
            'inner/inner.gemspec',
            'lib/shop/version.rb',
            'inner/lib/inner/version.rb',
          ],
          test: 'bundle exec rake test',
        },
      ],
    },
    {
      name: 'a configuration of the project’s own is not written over',
      files: { 'web/Gemfile': 'gem "puma"\n', 'web/.bundle/config': '---\n', 'web/config.ru': '' },
      finds: [
        {
          directory: 'web',
          generated: ['web/vendor/bundle'],
          variables: { BUNDLE_PATH: '$WORKSPACE/web/vendor/bundle' },
          dev: 'bundle exec puma -p 9292',
          ports: [9292],
        },
      ],
    },
    {
      name: 'pages of Jekyll',
      files: { Gemfile: '\uFEFFgem "jekyll"\r\n' },
      finds: [
        { dev: 'bundle exec jekyll serve --host 0.0.0.0', build: 'bundle exec jekyll build', ports: [4000] },
      ],
    },
    {
      name: 'several applications are several findings, and what is vendored is none',
      files: { 'a/Gemfile': '', 'b/Gemfile': '', 'vendor/bundle/x/Gemfile': '' },
      finds: [{ directory: 'a' }, { directory: 'b' }],
    },
  ])
})
