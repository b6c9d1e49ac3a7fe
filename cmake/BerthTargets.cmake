# What every target of ours shares, as usage requirements: no global flags, no global include paths.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED)
# Static, like everything the program links: a shared one costs each start.
find_library(BERTH_BOOST_JSON NAMES libboost_json.a REQUIRED)
find_path(BERTH_FMT_INCLUDE fmt/format-inl.h REQUIRED)

add_library(berth_flags INTERFACE)
target_include_directories(berth_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(berth_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-designated-field-initializers -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Werror
  -fno-omit-frame-pointer -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_definitions(berth_flags INTERFACE
  _GNU_SOURCE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(berth_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
  target_link_options(berth_flags INTERFACE -Wl,-z,relro,-z,now)
endif()
if(BERTH_SANITIZE)
  target_compile_options(berth_flags INTERFACE -fsanitize=${BERTH_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(berth_flags INTERFACE -fsanitize=${BERTH_SANITIZE})
endif()
target_link_options(berth_flags INTERFACE -fuse-ld=lld-19)
target_link_libraries(berth_flags INTERFACE Threads::Threads)
include(Prelude)

# berth_layer(NAME dep...): the library of the folder src/NAME ("backend/local" -> berth_backend_local),
# made of every source in it, linked to the layers left of it.
function(berth_layer name)
  string(REPLACE "/" "_" flat ${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(hooks_on|hooks_off|main|start)\\.cpp$")
  if(NOT sources)
    return()
  endif()
  set(prelude plain)
  if(name MATCHES "^(server|lifecycle|bench|conformance|backend/e2b|backend/exec_server)")
    set(prelude async)
  elseif(name MATCHES "^(prove|keeping|backend|berth)")
    set(prelude waiting)
  elseif(name STREQUAL "cli")
    set(prelude verbs)
  endif()
  berth_prelude_options(${prelude} options)
  # Of sources, not of the target: one that sets its own options does without.
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${options}")
  add_library(berth_${flat} STATIC ${sources})
  add_dependencies(berth_${flat} berth_prelude_${prelude})
  string(REPLACE "/" "::" alias ${name})
  add_library(berth::${alias} ALIAS berth_${flat})
  target_link_libraries(berth_${flat} PUBLIC berth_flags)
  set_property(GLOBAL APPEND PROPERTY BERTH_LAYERS berth_${flat})
  foreach(dep ${ARGN})
    target_link_libraries(berth_${flat} PUBLIC ${dep})
  endforeach()
endfunction()
