// The bodies of libraries that are used as headers here: compiled once, in this file, because
// Debian ships no static library of them and a shared one costs every start of `berth run`.
#include <fmt/format-inl.h>

#define BOOST_ASIO_SOURCE
#include <boost/asio/impl/src.hpp>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;

template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);

} // namespace detail
FMT_END_NAMESPACE
