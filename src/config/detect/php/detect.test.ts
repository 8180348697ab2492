import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectPhp } from './detect.ts'

const json = (value: unknown): string => JSON.stringify(value, null, 2)
const SETUP = 'composer install --no-interaction --no-progress --no-scripts'

describe('PHP', () => {
  testDetector(detectPhp, [
    { name: 'nothing is found where there is no PHP', files: { 'index.html': '' }, finds: [] },
    {
      name: 'a project of Composer’s',
      files: {
        'composer.json': json({
          name: 'example/shop',
          require: { php: '^8.2', 'ext-json': '*', 'ext-pdo_mysql': '*', 'ext-strange': '*' },
          config: { platform: { php: '8.2.5' } },
        }),
        'composer.lock': json({ packages: [{ name: 'a/b', require: { 'ext-intl': '*' } }] }),
        '.php-version': '8.3\n',
        'phpunit.xml.dist': '',
        'phpstan.neon': '',
        'public/index.php': '',
      },
      finds: [
        {
          language: 'php',
          seen: 'composer.json:2',
          versions: [
            '8.3 version file .php-version:1',
            '8.2.5 manifest composer.json:11',
            '^8.2 range composer.json:4',
          ],
          manager: 'composer',
          tools: ['composer'],
          lockfile: 'composer.lock',
          inputs: ['composer.json', 'composer.lock'],
          packages: ['php-cli', 'unzip', 'git', 'php-mysql', 'php-intl'],
          setup: SETUP,
          test: 'vendor/bin/phpunit',
          lint: 'vendor/bin/phpstan analyse --no-progress',
          dev: 'php -S 0.0.0.0:8000 -t public',
          ports: [8000],
          generated: ['vendor'],
          presets: [],
          notes: [/no known Debian package has the extension strange/],
        },
      ],
    },
    {
      name: 'Laravel',
      files: {
        'composer.json': json({ 'require-dev': { 'laravel/pint': '*' } }),
        artisan: '',
        'phpunit.xml': '',
      },
      finds: [
        { dev: 'php artisan serve --host=0.0.0.0', test: 'php artisan test', lint: 'vendor/bin/pint --test' },
      ],
    },
    {
      name: 'scripts of the project come first',
      files: { 'composer.json': json({ scripts: { test: 'x', lint: ['y'] } }), 'phpunit.xml': '' },
      finds: [{ test: 'composer test', lint: 'composer lint' }],
    },
    {
      name: 'directories that are searched for classes have stubs, and the map is made again',
      files: {
        'composer.json': json({
          autoload: { classmap: ['database/', 'Single.php', '../../etc'] },
          repositories: [{ type: 'path', url: 'packages/inner' }],
        }),
        'database/a.php': '<?php real();',
        'Single.php': '<?php',
        'packages/inner/composer.json': '{}',
        'phpunit.xml': '',
      },
      finds: [
        {
          stubs: { 'database/a.php': '', 'Single.php': '' },
          test: 'composer dump-autoload --quiet --no-scripts && vendor/bin/phpunit',
          inputs: ['composer.json', 'packages/inner/composer.json'],
        },
        { directory: 'packages/inner' },
      ],
    },
    {
      name: 'a malformed manifest is a note',
      files: { 'composer.json': '{"name": ' },
      finds: [{ setup: SETUP, notes: [/composer\.json is malformed/] }],
    },
    {
      name: 'pages without a manager',
      files: { 'index.php': '' },
      finds: [{ dev: 'php -S 0.0.0.0:8000', setup: undefined, packages: ['php-cli'] }],
    },
    {
      name: 'a page beside another language is nothing',
      files: { 'index.php': '', 'package.json': '{}' },
      finds: [],
    },
  ])
})
