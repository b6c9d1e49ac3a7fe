# shellcheck shell=bash
#: fmt                   format every C++ file in place (clang-format 19)
need lint
sources | xargs -r clang-format-19 -i
