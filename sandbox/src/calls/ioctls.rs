//! The ioctl requests that change nothing, whatever descriptor they are made on.
//!
//! An allow-list: requests are many, device drivers add their own, and a read-only descriptor is enough
//! for most of those that write. A request that is missing here is not lost, the supervisor is asked.

use super::Value;

/// A request that passes without a question.
#[derive(Clone, Copy, Debug)]
pub struct Ioctl {
    /// Name and number; the same on every architecture of the table.
    pub value: Value,
    /// Why it is harmless.
    pub why: &'static str,
}

macro_rules! ioctls {
    ($($why:literal { $($name:ident = $bits:literal,)+ })+) => {
        /// Every request that passes without a question, frequent ones first.
        pub static HARMLESS_IOCTLS: &[Ioctl] = &[
            $($(Ioctl { value: Value { name: stringify!($name), bits: $bits }, why: $why },)+)+
        ];
        pub(super) const IOCTLS: &[Value] = &[
            $($(Value { name: stringify!($name), bits: $bits },)+)+
        ];
    };
}

ioctls! {
    "reads the state of a terminal" {
        TCGETS = 0x5401,
        TCGETS2 = 0x802C_542A,
        TIOCGWINSZ = 0x5413,
        TIOCGPGRP = 0x540F,
        TIOCGSID = 0x5429,
        TIOCOUTQ = 0x5411,
        TIOCMGET = 0x5415,
        TIOCGSOFTCAR = 0x5419,
        TIOCGSERIAL = 0x541E,
        TIOCGETD = 0x5424,
        TIOCGPTN = 0x8004_5430,
        TIOCGDEV = 0x8004_5432,
        TIOCGPKT = 0x8004_5438,
        TIOCGPTLCK = 0x8004_5439,
        TIOCGEXCL = 0x8004_5440,
        TIOCGLCKTRMIOS = 0x5456,
        TIOCGICOUNT = 0x545D,
        KDGKBTYPE = 0x4B33,
        KDGETMODE = 0x4B3B,
        KDGKBMODE = 0x4B44,
        VT_GETSTATE = 0x5603,
    }
    "opens the other end of a pseudo-terminal whose first end is open for writing" {
        TIOCGPTPEER = 0x5441,
    }
    "reads how much there is to read" {
        FIONREAD = 0x541B,
        SIOCOUTQNSD = 0x894B,
        FIOQSIZE = 0x5460,
    }
    "sets a property of the descriptor alone" {
        FIONBIO = 0x5421,
        FIOCLEX = 0x5451,
        FIONCLEX = 0x5450,
        FIOASYNC = 0x5452,
    }
    "needs a writable descriptor, and opening one is trapped" {
        FICLONE = 0x4004_9409,
        FICLONERANGE = 0x4020_940D,
    }
    "reads the attributes of a file or a file system" {
        FS_IOC_GETFLAGS = 0x8008_6601,
        FS_IOC32_GETFLAGS = 0x8004_6601,
        FS_IOC_GETVERSION = 0x8008_7601,
        FS_IOC_FSGETXATTR = 0x801C_581F,
        FS_IOC_FIEMAP = 0xC020_660B,
        FS_IOC_GETFSLABEL = 0x8100_9431,
        FS_IOC_GETFSUUID = 0x8011_1500,
        FS_IOC_GETFSSYSFSPATH = 0x8081_1501,
        FS_IOC_GET_ENCRYPTION_POLICY = 0x400C_6615,
        FS_IOC_GET_ENCRYPTION_POLICY_EX = 0xC009_6616,
        FS_IOC_MEASURE_VERITY = 0xC004_6686,
        FIGETBSZ = 2,
        FIBMAP = 1,
        BTRFS_IOC_FS_INFO = 0x8400_941F,
        BTRFS_IOC_SUBVOL_GETFLAGS = 0x8008_9419,
        BTRFS_IOC_INO_LOOKUP = 0xD000_9412,
        BTRFS_IOC_GET_SUBVOL_INFO = 0x81F8_943C,
    }
    "reads the size or geometry of a block device" {
        BLKGETSIZE64 = 0x8008_1272,
        BLKGETSIZE = 0x1260,
        BLKSSZGET = 0x1268,
        BLKBSZGET = 0x8008_1270,
        BLKPBSZGET = 0x127B,
        BLKROGET = 0x125E,
        BLKRAGET = 0x1263,
        BLKFRAGET = 0x1265,
        BLKSECTGET = 0x1267,
        BLKIOMIN = 0x1278,
        BLKIOOPT = 0x1279,
        BLKALIGNOFF = 0x127A,
        BLKDISCARDZEROES = 0x127C,
        BLKROTATIONAL = 0x127E,
        BLKGETZONESZ = 0x8004_1284,
        BLKGETNRZONES = 0x8004_1285,
        BLKGETDISKSEQ = 0x8008_1280,
        HDIO_GETGEO = 0x0301,
        LOOP_GET_STATUS = 0x4C03,
        LOOP_GET_STATUS64 = 0x4C05,
    }
    "reads the settings of a socket or a network interface" {
        SIOCGIFNAME = 0x8910,
        SIOCGIFCONF = 0x8912,
        SIOCGIFFLAGS = 0x8913,
        SIOCGIFADDR = 0x8915,
        SIOCGIFDSTADDR = 0x8917,
        SIOCGIFBRDADDR = 0x8919,
        SIOCGIFNETMASK = 0x891B,
        SIOCGIFMETRIC = 0x891D,
        SIOCGIFMEM = 0x891F,
        SIOCGIFMTU = 0x8921,
        SIOCGIFHWADDR = 0x8927,
        SIOCGIFINDEX = 0x8933,
        SIOCGIFPFLAGS = 0x8935,
        SIOCGIFCOUNT = 0x8938,
        SIOCGIFTXQLEN = 0x8942,
        SIOCGMIIPHY = 0x8947,
        SIOCGMIIREG = 0x8948,
        SIOCGARP = 0x8954,
        SIOCGIFMAP = 0x8970,
        SIOCGIWNAME = 0x8B01,
        SIOCGIWESSID = 0x8B1B,
        SIOCATMARK = 0x8905,
        SIOCGPGRP = 0x8904,
        FIOGETOWN = 0x8903,
        SIOCGSTAMP_OLD = 0x8906,
        SIOCGSTAMPNS_OLD = 0x8907,
        SIOCGSTAMP_NEW = 0x8010_8906,
        SIOCGSTAMPNS_NEW = 0x8010_8907,
    }
    "reads which namespace a descriptor stands for, or its parent" {
        NS_GET_USERNS = 0xB701,
        NS_GET_PARENT = 0xB702,
        NS_GET_NSTYPE = 0xB703,
        NS_GET_OWNER_UID = 0xB704,
    }
    "reads a counter or a clock" {
        RNDGETENTCNT = 0x8004_5200,
        RTC_RD_TIME = 0x8024_7009,
    }
}
