# shellcheck shell=bash
#: ci                    what must be green: format, layers, sizes, then ./dev test
./dev lint --quick
exec ./dev test
