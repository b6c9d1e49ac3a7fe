#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace berth::image {

/// The names in a directory, sorted.
inline std::vector<std::string> names_in(const std::string& path)
{
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace berth::image
