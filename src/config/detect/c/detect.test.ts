import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectC } from './detect.ts'

const BASIC = ['build-essential', 'cmake', 'ninja-build', 'pkg-config']

describe('C and C++', () => {
  testDetector(detectC, [
    { name: 'nothing is found where there is no C', files: { Makefile: 'all:\n' }, finds: [] },
    {
      name: 'a project of CMake is built with Ninja and tested where it has tests',
      files: {
        'CMakeLists.txt':
          'cmake_minimum_required(VERSION 3.20)\nproject(shop CXX)\nfind_package(ZLIB REQUIRED)\nfind_package( OpenSSL 3 )\nfind_package(Threads)\nfind_package(Unheard)\n# find_package(CURL)\nenable_testing()\n',
      },
      finds: [
        {
          language: 'c',
          seen: 'CMakeLists.txt:2',
          manager: 'cmake',
          tools: ['cmake >=3.20'],
          packages: [...BASIC, 'zlib1g-dev', 'libssl-dev'],
          setup: undefined,
          build: 'cmake -B build -G Ninja && cmake --build build',
          test: 'cmake -B build -G Ninja && cmake --build build && ctest --test-dir build --output-on-failure',
          generated: ['build'],
          inputs: [],
          presets: [],
        },
      ],
    },
    {
      name: 'directories that are added belong to it, in circles and beside it too',
      files: {
        'app/CMakeLists.txt': `project(a)\nadd_subdirectory(src)\nadd_subdirectory(../lib lib)\nadd_subdirectory(/usr)\nadd_subdirectory(../../x)\nadd_subdirectory(\${DIR})\n`,
        'app/src/CMakeLists.txt':
          'add_subdirectory(..)\nfind_package(fmt CONFIG)\npkg_check_modules(GLIB REQUIRED IMPORTED_TARGET glib-2.0>=2.50 libcurl)\n',
        'lib/CMakeLists.txt': 'add_test(NAME x COMMAND x)\n',
        'other/CMakeLists.txt': 'project(o)\n',
      },
      finds: [
        {
          directory: 'app',
          packages: [...BASIC, 'libfmt-dev', 'libglib2.0-dev', 'libcurl4-openssl-dev'],
          generated: ['app/build'],
        },
        { directory: 'other', test: undefined },
      ],
    },
    {
      name: 'what lies below a project and is not reached by name is no project of its own',
      files: {
        'CMakeLists.txt': `foreach(d \${dirs})\nadd_subdirectory(\${d})\nendforeach()\n`,
        'a/CMakeLists.txt': 'project(a)\n',
      },
      finds: [{ directory: '' }],
    },
    {
      name: 'the only preset is used, with what it inherits',
      files: {
        'CMakeLists.txt': 'project(a)\ninclude(CTest)\n',
        'CMakePresets.json': JSON.stringify({
          configurePresets: [
            { name: 'base', hidden: true, binaryDir: `\${sourceDir}/out/\${presetName}` },
            { name: 'ci', inherits: ['base'] },
          ],
        }),
      },
      finds: [
        {
          build: 'cmake --preset ci && cmake --build out/ci',
          test: 'cmake --preset ci && cmake --build out/ci && ctest --test-dir out/ci --output-on-failure',
          generated: ['out/ci'],
        },
      ],
    },
    {
      name: 'of several presets one of a usual name is used, and otherwise none',
      files: {
        'a/CMakeLists.txt': 'project(a)\n',
        'a/CMakePresets.json':
          '{"configurePresets":[{"name":"x","binaryDir":"b/x"},{"name":"dev","binaryDir":"b/dev"}]}',
        'b/CMakeLists.txt': 'project(b)\n',
        'b/CMakePresets.json': '{"configurePresets":[{"name":"x"},{"name":"y"}]}',
        'c/CMakeLists.txt': 'project(c)\n',
        'c/CMakePresets.json':
          '{"configurePresets":[{"name":"x","inherits":"y","binaryDir":"../../../etc"},{"name":"y","hidden":true,"inherits":"x"}]}',
        'd/CMakeLists.txt': 'project(d)\n',
        'd/CMakePresets.json': '{',
      },
      finds: [
        { directory: 'a', build: 'cmake --preset dev && cmake --build b/dev' },
        {
          directory: 'b',
          build: 'cmake -B build -G Ninja && cmake --build build',
          notes: [/several presets.*x, y/],
        },
        { directory: 'c', build: 'cmake -B build -G Ninja && cmake --build build' },
        { directory: 'd', notes: [/CMakePresets\.json is malformed/] },
      ],
    },
    {
      name: 'sources that are fetched while building are said',
      files: { 'CMakeLists.txt': 'include(FetchContent)\nFetchContent_Declare(fmt)\n', 'vcpkg.json': '{}' },
      finds: [{ notes: [/fetches sources.*line 2/, /vcpkg, which is not supported/] }],
    },
    {
      name: 'a project of Meson is the top one',
      files: {
        'meson.build': "project('x', 'c')\r\nglib = dependency('glib-2.0')\r\nsubdir('src')\r\n",
        'src/meson.build': "z = dependency('zlib', required: false)\ntest('a', exe)\n",
        'subprojects/fmt.wrap': '',
      },
      finds: [
        {
          manager: 'meson',
          seen: 'meson.build:1',
          packages: ['build-essential', 'meson', 'ninja-build', 'pkg-config', 'libglib2.0-dev', 'zlib1g-dev'],
          build: 'meson setup build && meson compile -C build',
          test: 'meson setup build && meson test -C build',
          notes: [/fmt\.wrap/],
        },
      ],
    },
    {
      name: 'the autotools make their script first, unless it is there',
      files: {
        'a/configure.ac': 'AC_INIT\nPKG_CHECK_MODULES([DEPS], [libxml-2.0 >= 2.9 libcurl])\n',
        'a/Makefile.am': '',
        'a/x.c': '',
        'b/configure': '',
        'b/src/x.c': '',
      },
      finds: [
        {
          directory: 'a',
          manager: 'autotools',
          packages: [
            'build-essential',
            'pkg-config',
            'autoconf',
            'automake',
            'libtool',
            'libxml2-dev',
            'libcurl4-openssl-dev',
          ],
          build: 'autoreconf -fi && ./configure && make',
          test: 'autoreconf -fi && ./configure && make && make check',
        },
        { directory: 'b', build: './configure && make', test: undefined },
      ],
    },
    {
      name: 'a Makefile counts where there is C and nothing else',
      files: {
        'a/Makefile': 'CFLAGS := $(shell pkg-config --cflags libpng)\nall: x\ncheck: all\n\t./x\n',
        'a/x.c': '',
        'b/Makefile': 'test:\n',
        'b/x.c': '',
        'b/go.mod': 'module x\n',
        'c/Makefile': 'test:\n',
        'c/x.py': '',
      },
      finds: [
        {
          directory: 'a',
          manager: 'make',
          packages: ['build-essential', 'libpng-dev'],
          build: 'make',
          test: 'make check',
        },
      ],
    },
    {
      name: 'CMake beats what lies beside it',
      files: {
        'CMakeLists.txt': 'project(x)\n',
        'meson.build': "project('x')\n",
        Makefile: 'all:\n',
        'x.c': '',
      },
      finds: [{ manager: 'cmake', beaten: ['meson', 'make'] }],
    },
    {
      name: 'what is vendored does not count',
      files: { 'vendor/zlib/CMakeLists.txt': 'project(z)\n', 'third_party/x/CMakeLists.txt': '' },
      finds: [],
    },
  ])
})
