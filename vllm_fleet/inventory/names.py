"""Names that Ansible itself gives a meaning to, in hosts and groups."""

from __future__ import annotations

CONNECTION = """
host user port password connection ssh_host ssh_user ssh_port ssh_pass ssh_password
ssh_private_key_file private_key_file ssh_private_key ssh_private_key_passphrase ssh_common_args
ssh_extra_args ssh_args ssh_executable sftp_executable scp_executable sftp_extra_args
scp_extra_args sftp_batch_mode ssh_transfer_method ssh_pipelining pipelining ssh_retries
ssh_timeout timeout ssh_host_key_checking host_key_checking ssh_use_tty control_path
control_path_dir ssh_pkcs11_provider pkcs11_provider sshpass_prompt ssh_password_mechanism
ssh_verbosity ssh_connection_timeout connection_timeout command_timeout
paramiko_host_key_checking paramiko_ssh_pass paramiko_user
become become_user become_pass become_password become_method become_exe become_flags
sudo_pass sudo_user sudo_exe sudo_flags su_pass su_user su_exe su_flags
shell_type shell_executable remote_tmp async_dir system_tmpdirs admin_users common_remote_group
world_readable_temp remote_temp
python_interpreter interpreter_python_fallback perl_interpreter ruby_interpreter
module_compression keep_remote_files no_target_syslog target_keep_remote_files
facts facts_parallel gather_subset diff_mode check_mode config_file forks inventory_sources
limit loop loop_var index_var parent_role_names parent_role_paths play_batch play_hosts
play_hosts_all play_name play_role_names playbook_python role_name role_names run_tags
skip_tags search_path verbosity version dependent_role_names delegated_vars local
collection_name failed_task failed_result winrm_transport winrm_scheme network_os
httpapi_use_ssl httpapi_validate_certs persistent_command_timeout persistent_connect_timeout
docker_extra_args host_ignore_unreachable libssh_password aws_ssm_bucket_name
managed managed_hostname
"""
ANSIBLE_NAMES = frozenset(f"ansible_{word}" for word in CONNECTION.split())
ACCELERATORS = ("ascend", "nvidia", "cpu")
SERVING = "serving"
BUILDERS = "builders"
