#include "image/accounts.hpp"

#include <fmt/format.h>

namespace berth::image {

std::string passwd_file(std::string_view shell)
{
    return fmt::format("root:x:0:0:root:/root:{0}\n"
                       "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                       "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                       "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                       "user:x:1000:1000:user:/home/user:{0}\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                       shell);
}

std::string group_file()
{
    return "root:x:0:\n"
           "daemon:x:1:\n"
           "bin:x:2:\n"
           "sys:x:3:\n"
           "tty:x:5:\n"
           "user:x:1000:\n"
           "nogroup:x:65534:\n";
}

std::string nsswitch_file()
{
    return "passwd: files\n"
           "group: files\n"
           "shadow: files\n"
           "hosts: files dns\n"
           "networks: files\n"
           "protocols: files\n"
           "services: files\n"
           "ethers: files\n"
           "rpc: files\n";
}

} // namespace berth::image
