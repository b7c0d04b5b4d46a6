"""Stand for the bootstrap script that ansible-test would download from the Internet.

ansible-test makes bare virtual environments and runs this file in them to get pip; the pip that
Python carries (ensurepip) serves as well. Its arguments, the wanted versions, are left unused.
"""

import ensurepip

ensurepip.bootstrap()
